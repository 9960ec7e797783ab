// Runs a Temporal dev server on a file in the data directory, and waits until it is ready.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { registerSearchAttributes } from '../../connect/search-attributes.ts'
import type { DataDir, StateFile } from '../data-dir.ts'
import { reasonOf, StackError } from '../errors.ts'
import type { Keeper, KeptProcess } from '../keeper/keeper.ts'
import { logTail } from '../log-tail.ts'
import { accepts, freePort } from '../ports.ts'
import { embeddedServer, type WatchedServer } from '../server.ts'
import { ensureRetention, probeNamespace, withConnection } from './probe.ts'
import { DYNAMIC_CONFIG } from './release.ts'

/** The stack's Temporal server. */
export interface TemporalServer {
  server: WatchedServer
  address: string
  namespace: string
  ui?: string
  /** Environment variables with its address. */
  env: Record<string, string>
}

/** What an embedded server needs to start. */
export interface TemporalPlace {
  keeper: Keeper
  dir: DataDir
  state: StateFile
  namespace: string
  ui: 'on' | 'off'
}

const NAME = 'temporal'
const READY_MS = 60_000
/** Another process may take a port between this process's check and the server's start. */
const PORT_TRIES = 3
/** A dev server's usual ports. Only a stack with a permanent data directory uses them. */
const USUAL_PORT = 7233
const USUAL_UI_PORT = 8233

/** Starts a dev server with `binary` and waits until it is ready. @throws StackError `temporal_start_failed`. */
export async function startTemporal(binary: string, place: TemporalPlace): Promise<TemporalServer> {
  const { keeper, dir, state, namespace, ui } = place
  const usual = dir.kind === 'kept' ? [USUAL_PORT] : []
  const usualUi = dir.kind === 'kept' ? [USUAL_UI_PORT] : []
  let running: KeptProcess | undefined
  for (let tries = 1; running === undefined; tries++) {
    const port = await freePort([...known(state.current.temporalPort), ...usual])
    const uiPort =
      ui === 'on' ? await freePort([...known(state.current.temporalUiPort), ...usualUi].filter((other) => other !== port)) : undefined
    await state.remember({ temporalPort: port, ...(uiPort === undefined ? {} : { temporalUiPort: uiPort }) })
    running = await launch(binary, place).catch((error: unknown) => {
      if (tries === PORT_TRIES) throw error
      return undefined
    })
  }

  const { temporalPort, temporalUiPort } = state.current
  const address = `127.0.0.1:${temporalPort}`
  return {
    address,
    namespace,
    ...(ui === 'on' ? { ui: `http://127.0.0.1:${temporalUiPort}` } : {}),
    // Without the TLS setting, an API key or certificates meant for another server would make clients speak TLS to this one.
    env: { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, TEMPORAL_TLS: 'false' },
    server: embeddedServer(running, {
      launch: () => launch(binary, place),
      end: (how) => keeper.stop(NAME, how === 'orderly' ? 'SIGTERM' : 'SIGKILL'),
    }),
  }
}

async function launch(binary: string, { keeper, dir, state, namespace, ui }: TemporalPlace): Promise<KeptProcess> {
  const { temporalPort: port = 0, temporalUiPort } = state.current
  const database = join(dir.path, 'temporal.db')
  const logFile = join(dir.path, 'temporal.log')
  const running = await keeper.start(NAME, {
    command: binary,
    args: [
      'server',
      'start-dev',
      '--ip=127.0.0.1',
      `--port=${port}`,
      `--namespace=${namespace}`,
      '--log-level=error',
      ui === 'on' ? `--ui-port=${temporalUiPort}` : '--headless',
      `--db-filename=${database}`,
      // A write-ahead log halves the time of a write, and is just as safe if the server dies.
      '--sqlite-pragma=journal_mode=WAL',
      '--sqlite-pragma=synchronous=NORMAL',
      ...Object.entries(DYNAMIC_CONFIG).map(([key, value]) => `--dynamic-config-value=${key}=${value}`),
    ],
    cwd: dir.path,
    // The server gets its own environment and home, because the user's settings for the command line are meant for clients.
    env: { PATH: process.env.PATH ?? '', HOME: dir.path, TMPDIR: process.env.TMPDIR ?? '/tmp' },
    logFile,
    stopSignal: 'SIGTERM',
    marker: database,
  })
  try {
    await untilServed(running, port, namespace)
    return running
  } catch (cause) {
    await keeper.stop(NAME, 'SIGKILL')
    throw new StackError(
      'temporal_start_failed',
      `The Temporal server ${binary} did not start: ${reasonOf(cause)}. Its log: ${await logTail(logFile)}. ` +
        'Fix the cause, or set TEMPORAL_ADDRESS to your own server.',
      { cause },
    )
  }
}

async function untilServed(running: KeptProcess, port: number, namespace: string): Promise<void> {
  const until = Date.now() + READY_MS
  let last: unknown
  while (Date.now() < until) {
    const exit = running.exit()
    if (exit) throw new Error(`it ended with ${exit.signal ?? `code ${exit.code}`}`)
    // After a refused connection, gRPC waits for a second. Checking the port first avoids this wait.
    if (await accepts(port)) {
      const served = await withConnection({ address: `127.0.0.1:${port}`, connectTimeout: '5s' }, async (connection) => {
        const answer = await probeNamespace(connection, namespace)
        if (answer === 'served') {
          await ensureRetention(connection, namespace)
          // Sessions work without them.
          await registerSearchAttributes(connection, namespace).catch(() => undefined)
        }
        return answer
      }).catch((error: unknown) => {
        last = error
      })
      if (served === 'served' && !running.exit()) return
    }
    await sleep(25)
  }
  throw new Error(`it did not answer within ${READY_MS / 1_000} s`, { cause: last })
}

function known(port: number | undefined): number[] {
  return port === undefined ? [] : [port]
}
