// A test file's own deployment: workers on a task queue that no other file uses, a client, and the shared stack underneath.
import { randomUUID } from 'node:crypto'
import { Client, Connection, type WorkflowClientInterceptor } from '@temporalio/client'
import { Pawl, type ConnectOptions } from 'pawl/client'
import { createWorker, type CreateWorkerOptions } from 'pawl/worker'
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { inject } from 'vitest'
import { defined } from '../../src/session/defined.ts'
import { type HistorySize, type SessionStart, workflowIdOf } from '../../src/session/protocol/protocol.ts'
import type { SharedStack } from '../setup/stack.ts'
import { until } from './until.ts'

/** A process runs many test files, one after another, and has one runtime. */
const shared = globalThis as { pawlTestRuntime?: Runtime }
shared.pawlTestRuntime ??= Runtime.install({ logger: new DefaultLogger('ERROR') })

export interface RunningWorker {
  /** How many activities it carries out now. */
  activities(): number
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
  /** Waits until the session's workflow has ended: everything is stored then, and the next message or request opens the session again. */
  workflowEnded(sessionId: string, timeoutMs?: number): Promise<void>
  stop(): Promise<void>
}

/** What differs from the shared stack and from ordinary sessions. */
export interface DeploymentOptions {
  stack?: SharedStack
  schema?: string
  taskQueue?: string
  /** When sessions continue as new. */
  history?: Partial<HistorySize>
}

/** Deploys onto the shared stack, or onto a given one. */
export async function deploy(options: DeploymentOptions = {}): Promise<Deployment> {
  const { stack = inject('stack'), taskQueue = `test-${randomUUID().slice(0, 8)}` } = options
  const { temporalAddress: address, namespace, databaseUrl: postgres } = stack
  const common = {
    temporal: { address, namespace },
    postgres,
    taskQueue,
    logger: SILENT,
    ...defined({ schema: options.schema }),
  }
  const connection = await Connection.connect({ address })
  const { history } = options
  const clients = history && new Client({ connection, namespace, interceptors: { workflow: [withHistory(history)] } })
  const open: { close(): Promise<void> }[] = []
  const workers = new Set<RunningWorker>()

  async function connect(more: ConnectOptions = {}): Promise<Pawl> {
    const pawl = await Pawl.connect({ ...common, ...(clients && { temporal: clients }), ...more })
    open.push(pawl)
    return pawl
  }

  async function startWorker(more: CreateWorkerOptions): Promise<RunningWorker> {
    const worker = await createWorker({ ...common, ...more })
    const ended = worker.run()
    const running: RunningWorker = {
      activities: () => worker.status().activities,
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

  const temporal = new Client({ connection, namespace })
  return {
    taskQueue,
    stack,
    pawl: await connect(),
    temporal,
    startWorker,
    connect,
    async workflowEnded(sessionId, timeoutMs) {
      const handle = temporal.workflow.getHandle(workflowIdOf(sessionId))
      await until('its workflow has ended', async () => (await handle.describe()).status.name === 'COMPLETED', timeoutMs)
    },
    async stop() {
      await Promise.all([...workers].map((worker) => worker.stop()))
      await Promise.all(open.map((one) => one.close()))
      await connection.close()
    },
  }
}

/** Sets when sessions continue as new, which is not an option of pawl's clients. */
function withHistory(history: Partial<HistorySize>): WorkflowClientInterceptor {
  const set = (args: unknown[]): unknown[] =>
    args.map((start) => {
      const { settings, ...rest } = start as SessionStart
      return { ...rest, settings: { ...settings, history } }
    })
  return {
    signalWithStart: (input, next) => next({ ...input, options: { ...input.options, args: set([...(input.options.args ?? [])]) } }),
    startUpdateWithStart: (input, next) =>
      next({ ...input, workflowStartOptions: { ...input.workflowStartOptions, args: set([...input.workflowStartOptions.args]) } }),
  }
}

const ignore = (): void => undefined
/** A logger that logs nothing. */
export const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore }
