// The process that a supervisor starts: serves a module's agents, holds its activities through the supervisor, outlives it decently.
import { once } from 'node:events'
import type { NativeConnection } from '@temporalio/worker'
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { connectClient, resolveTemporal } from '../connect/temporal.ts'
import type { LogEntry } from '../session/events.ts'
import { PawlError } from '../session/errors.ts'
import { openStore } from '../store/index.ts'
import { openBeatDesk } from './beat-desk.ts'
import { remoteBeats } from './beats.ts'
import { storeOptions } from './create-worker.ts'
import { loadWorkerModule } from './load-module.ts'
import { defaultLogger } from './logger.ts'
import { processLog, type ReadShared } from './logs.ts'
import type { FromWorker, ToWorker } from './messages.ts'
import type { SuperviseOptions } from './options.ts'
import { makeServices, serve } from './serve.ts'
import { connectNative } from './temporal.ts'

/** What of the supervisor's options crosses into the process, as JSON in its environment. */
export type ChildOptions = Pick<SuperviseOptions, 'module' | 'temporal' | 'taskQueue' | 'postgres' | 'schema' | 'migrate'>

const ALIVE_EVERY_MS = 1_000
const READ_SHARED_MS = 1_000

/** Resolves when the supervisor is gone, also if it went while this process was loading. */
const orphaned = process.connected ? once(process, 'disconnect') : Promise.resolve()

async function main(options: ChildOptions): Promise<void> {
  let leave = (): void => process.exit(0)
  void orphaned.then(() => leave())
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  const logger = defaultLogger()
  const definition = await loadWorkerModule(options.module)
  const { services, dispose } = await makeServices(definition.services)
  const store = openStore({ ...storeOptions(options), logger })
  const connection: NativeConnection = await connectNative(options.temporal ?? {})
  const { namespace } = resolveTemporal(options.temporal)
  const beats = remoteBeats(post, { killsOverdue: true })
  const shared = sharedLogReader()
  const { worker, settle } = await serve({
    ...(options.taskQueue !== undefined && { taskQueue: options.taskQueue }),
    connection,
    namespace,
    agents: definition.agents,
    services,
    store,
    log: processLog(shared.read),
    beats,
    logger,
    onEvents: (key, entries, execution) => post({ type: 'log', key, entries, ...execution }),
  })
  const shutdown = (): void => {
    if (worker.getState() === 'RUNNING') worker.shutdown()
  }
  process.on('message', (message: ToWorker) => {
    if (message.type === 'shutdown') shutdown()
    else if (message.type === 'entries') shared.receive(message)
    else beats.receive(message)
  })
  // Without its supervisor it stops polling, finishes what it holds, beating for itself, and goes.
  leave = () => {
    shared.close()
    void connectClient(options.temporal ?? {}).then(({ client }) => {
      const desk = openBeatDesk(client, (message) => beats.receive(message))
      beats.moveTo((message) => void desk.receive(message))
    })
    shutdown()
  }
  setInterval(() => post({ type: 'alive' }), ALIVE_EVERY_MS).unref()
  const running = worker.run()
  post({ type: 'ready' })
  await running
  await settle()
  await store.close()
  await dispose()
  await connection.close()
}

function post(message: FromWorker): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
}

/** Reads from the supervisor's log. */
function sharedLogReader(): { read: ReadShared; receive(message: ToWorker & { type: 'entries' }): void; close(): void } {
  const waiting = new Map<number, (entries: LogEntry[] | null) => void>()
  let lastRequest = 0
  return {
    read: (key, from, to) =>
      new Promise((resolve) => {
        if (!process.connected) return resolve(null)
        const request = ++lastRequest
        const timer = setTimeout(() => settle(null), READ_SHARED_MS)
        const settle = (entries: LogEntry[] | null): void => {
          clearTimeout(timer)
          waiting.delete(request)
          resolve(entries)
        }
        waiting.set(request, settle)
        post({ type: 'read', request, key, from, to })
      }),
    receive: ({ request, entries }) => waiting.get(request)?.(entries),
    close() {
      for (const settle of [...waiting.values()]) settle(null)
    },
  }
}

try {
  await main(JSON.parse(process.env.PAWL_CHILD_OPTIONS ?? '{}') as ChildOptions)
  process.exit(0)
} catch (error) {
  const code = error instanceof PawlError ? error.code : 'worker_failed'
  const message = error instanceof PawlError ? error.message : error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.send?.({ type: 'start_failed', code, message } satisfies FromWorker)
  process.exit(1)
}
