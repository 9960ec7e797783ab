// The worker processes of a crash test: supervised as in production, serving the user's module watched from around it.
import { rmSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { superviseWorkers } from '../../worker/index.ts'
import { CrashTestError } from './errors.ts'
import { type MarkReader, markReader } from './marks.ts'
import { until } from './until.ts'

/** Running worker processes. */
export interface CrashWorkers {
  marks: MarkReader
  pids(): number[]
  /** Resolves when all processes serve. @throws CrashTestError `workers_failed`. */
  complete(): Promise<void>
  stop(): Promise<void>
}

/** What they serve, and where. */
export interface CrashWorkersOptions {
  module: string
  processes: number
  temporal: { address: string; namespace: string }
  postgres: string
  taskQueue: string
}

const BOOT_MS = 60_000
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** Starts them; resolves when all serve. @throws CrashTestError `workers_failed`, with what the module did wrong. */
export async function startWorkers({ module, ...options }: CrashWorkersOptions): Promise<CrashWorkers> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-crash-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 5 })
  const ready = new Set<number>()
  try {
    const supervisor = await superviseWorkers({
      ...options,
      module: await writeWrapper(folder, module),
      logger: SILENT,
      onEvent(event) {
        if (event.event === 'worker_ready') ready.add(event.pid)
        if (event.event === 'worker_died') ready.delete(event.pid)
      },
    })
    // A process that stands still would not notice that this one is gone.
    const abandon = (): void => {
      for (const pid of supervisor.pids()) process.kill(pid, 'SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
    process.once('exit', abandon)
    const stop = async (): Promise<void> => {
      await supervisor.shutdown()
      process.off('exit', abandon)
      await remove()
    }
    const complete = (): Promise<void> =>
      until(() => supervisor.pids().filter((pid) => ready.has(pid)).length >= options.processes, BOOT_MS).catch((cause: unknown) => {
        throw new CrashTestError('workers_failed', `After ${BOOT_MS / 1_000} s the worker processes do not serve: see what they printed.`, {
          cause,
        })
      })
    try {
      await supervisor.ready()
      await complete()
    } catch (error) {
      await stop()
      throw error
    }
    return { marks: markReader(folder), pids: () => supervisor.pids(), complete, stop }
  } catch (cause) {
    await remove()
    if (cause instanceof CrashTestError) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new CrashTestError('workers_failed', `The worker processes did not start: ${reason}`, { cause })
  }
}

/** The module that the processes load. Its name says, as the user's own does, whether it takes a loader for TypeScript. */
async function writeWrapper(folder: string, module: string): Promise<string> {
  const served = new URL(`./worker/served${extname(import.meta.url)}`, import.meta.url).href
  const path = join(folder, /\.[mc]?tsx?$/.test(module) ? 'worker.mts' : 'worker.mjs')
  const text = `import { served } from ${JSON.stringify(served)}\nexport default await served(${JSON.stringify({ module, folder })})\n`
  await writeFile(path, text)
  return path
}

function ignore(): void {}
