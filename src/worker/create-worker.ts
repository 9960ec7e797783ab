// A worker in the caller's own process.
import { Client } from '@temporalio/client'
import { DefaultLogger, type LogEntry, Runtime } from '@temporalio/worker'
import type { Logger } from '../agent/tool.ts'
import { resolveTemporal, warnIfAssumed } from '../connect/temporal.ts'
import { checkPostgresUrl, openStore } from '../store/index.ts'
import { defineWorker } from './definition.ts'
import { WorkerError } from './errors.ts'
import { defaultLogger } from './logger.ts'
import { processLog } from './logs.ts'
import type { CreateWorkerOptions, PawlWorker } from './options.ts'
import { makeServices, serve } from './serve.ts'
import { connectNative } from './temporal.ts'
import { inLoopBeats, type LocalBeats, startThreadBeats } from './thread-beats.ts'

/**
 * Creates a worker that serves `agents` in this process. A crash of the process is noticed by heartbeats within seconds;
 * `superviseWorkers` notices it at once.
 * @throws WorkerError `no_temporal`, `no_postgres`; StoreError `invalid_postgres_url`; DeclarationError `no_agents`, `duplicate_agent`.
 */
export async function createWorker(options: CreateWorkerOptions): Promise<PawlWorker> {
  const { agents } = defineWorker(options)
  const { dispose, services } = await makeServices(options.services)
  const logger = options.logger ?? defaultLogger()
  quietRuntime(logger)
  const store = openStore({ ...storeOptions(options), logger })
  if (!options.connection) warnIfAssumed(options.temporal, logger)
  const connection = options.connection ?? (await connectNative(options.temporal ?? {}))
  const namespace = options.namespace ?? resolveTemporal(options.temporal).namespace
  const { beats, close: closeBeats } = await startBeats(options, namespace, connection)
  const { worker, settle } = await serve({ ...options, connection, namespace, agents, services, store, log: processLog(), beats, logger })
  let running: Promise<void> | undefined

  async function runToEnd(): Promise<void> {
    try {
      await worker.run()
    } finally {
      await settle()
      await closeBeats()
      await store.close()
      if (!options.connection) await connection.close()
      await dispose()
    }
  }

  return {
    run: () => (running ??= runToEnd()),
    async shutdown() {
      if (worker.getState() === 'RUNNING') worker.shutdown()
      await running
    },
    status() {
      const { numInFlightActivities, numCachedWorkflows } = worker.getStatus()
      return { state: worker.getState().toLowerCase(), activities: numInFlightActivities, sessions: numCachedWorkflows }
    },
  }
}

/** Creates a worker and serves until it is shut down (SIGINT and SIGTERM do so). */
export async function runWorker(options: CreateWorkerOptions): Promise<void> {
  const worker = await createWorker(options)
  await worker.run()
}

/** Where the side store is. @throws WorkerError `no_postgres`, StoreError `invalid_postgres_url`. */
export function storeOptions<P>(options: { postgres?: P; schema?: string; migrate?: 'auto' | 'check' | 'off' }): {
  postgres: P | string
  watch: 'always'
  schema?: string
  migrate?: 'auto' | 'check' | 'off'
} {
  const postgres = options.postgres ?? process.env.DATABASE_URL
  if (postgres === undefined || postgres === '') {
    throw new WorkerError(
      'no_postgres',
      'No side store is configured: set DATABASE_URL, give { postgres }, or use `pawl dev`, which brings its own.',
    )
  }
  if (typeof postgres === 'string') checkPostgresUrl(postgres)
  return {
    postgres,
    watch: 'always',
    ...(options.schema !== undefined && { schema: options.schema }),
    ...(options.migrate !== undefined && { migrate: options.migrate }),
  }
}

/** What the SDK has to say goes to the logger, from warnings up; by itself it would print a line at each of a worker's steps. */
function quietRuntime(logger: Logger): void {
  const tell = ({ level, message, meta }: LogEntry): void => logger[level === 'ERROR' ? 'error' : 'warn']({ ...meta }, message)
  try {
    Runtime.install({ logger: new DefaultLogger('WARN', tell) })
  } catch {
    // The caller has installed a runtime of its own, or has a worker already.
  }
}

async function startBeats(
  options: CreateWorkerOptions,
  namespace: string,
  connection: NonNullable<CreateWorkerOptions['connection']>,
): Promise<LocalBeats> {
  // A connection of the user's cannot be shared with a thread, and what it was made of is not known.
  if (options.connection)
    return inLoopBeats(new Client({ connection, namespace, ...(options.dataConverter && { dataConverter: options.dataConverter }) }))
  return startThreadBeats({ ...resolveTemporal(options.temporal), namespace })
}
