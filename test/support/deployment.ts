// A deployment of a test file's own: workers on a task queue that nobody else uses, a client, and the shared stack below.
import { randomUUID } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import { Pawl, type ConnectOptions } from 'pawl/client'
import { createWorker, type CreateWorkerOptions } from 'pawl/worker'
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { inject } from 'vitest'
import type { SharedStack } from '../setup/stack.ts'
import { until } from './until.ts'

Runtime.install({ logger: new DefaultLogger('ERROR') })

/** A worker that serves. */
export interface RunningWorker {
  /** Drains it and waits until it has ended. */
  stop(): Promise<void>
}

/** Workers and clients of one task queue. */
export interface Deployment {
  readonly taskQueue: string
  readonly stack: SharedStack
  readonly pawl: Pawl
  /** A Temporal client that knows nothing of pawl. */
  readonly temporal: Client
  /** Starts a worker; stopped with the deployment, if not before. */
  startWorker(options: CreateWorkerOptions): Promise<RunningWorker>
  connect(options?: ConnectOptions): Promise<Pawl>
  stop(): Promise<void>
}

/** What differs from the shared stack. */
export interface DeploymentOptions {
  stack?: SharedStack
  schema?: string
  taskQueue?: string
}

/** Deploys onto the shared stack, or onto the one that is given. */
export async function deploy(options: DeploymentOptions = {}): Promise<Deployment> {
  const { stack = inject('stack'), taskQueue = `test-${randomUUID().slice(0, 8)}` } = options
  const { temporalAddress: address, namespace, databaseUrl: postgres } = stack
  const common = {
    temporal: { address, namespace },
    postgres,
    taskQueue,
    logger: SILENT,
    ...(options.schema !== undefined && { schema: options.schema }),
  }
  const connection = await Connection.connect({ address })
  const open: { close(): Promise<void> }[] = []
  const workers = new Set<RunningWorker>()

  async function connect(more: ConnectOptions = {}): Promise<Pawl> {
    const pawl = await Pawl.connect({ ...common, ...more })
    open.push(pawl)
    return pawl
  }

  async function startWorker(more: CreateWorkerOptions): Promise<RunningWorker> {
    const worker = await createWorker({ ...common, ...more })
    const ended = worker.run()
    const running: RunningWorker = {
      async stop() {
        workers.delete(running)
        await worker.shutdown()
        await ended
      },
    }
    workers.add(running)
    await until('the worker serves', () => worker.status().state === 'running')
    return running
  }

  return {
    taskQueue,
    stack,
    pawl: await connect(),
    temporal: new Client({ connection, namespace }),
    startWorker,
    connect,
    async stop() {
      await Promise.all([...workers].map((worker) => worker.stop()))
      await Promise.all(open.map((one) => one.close()))
      await connection.close()
    },
  }
}

const ignore = (): void => undefined
/** Says nothing. */
export const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore }
