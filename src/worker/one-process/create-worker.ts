// A worker in the caller's own process: an orchestrator and one executor, without a process boundary between them.
import { DefaultLogger, type LogEntry, Runtime } from '@temporalio/worker'
import type { Logger } from '../../agent/tool.ts'
import { resolveTemporal, warnIfAssumed } from '../../connect/temporal.ts'
import { openStore } from '../../store/index.ts'
import { startApiKeys } from '../api-keys.ts'
import { loopback } from '../channel.ts'
import { checkAgents } from '../definition.ts'
import { startExecutor } from '../executor/executor.ts'
import { makeServices } from '../executor/services.ts'
import { defaultLogger } from '../logger.ts'
import type { CreateWorkerOptions, PawlWorker } from '../options.ts'
import { createOrchestrator } from '../orchestrator/orchestrator.ts'
import { connectNative } from '../orchestrator/temporal.ts'
import type { FromExecutor, ToExecutor } from '../protocol.ts'
import { storeOptions } from '../store-options.ts'
import { startHeartbeatThread } from './threaded-heartbeats.ts'

/** See `createWorker` of `pawl/worker`. */
export async function createWorker(options: CreateWorkerOptions): Promise<PawlWorker> {
  const { agents } = checkAgents(options)
  const { dispose, services } = await makeServices(options.services)
  const logger = options.logger ?? defaultLogger()
  quietRuntime(logger)
  const store = openStore({ ...storeOptions(options), logger, watch: 'always' })
  if (!options.connection) warnIfAssumed(options.temporal, logger)
  const { apiKey, ...where } = resolveTemporal(options.temporal)
  const namespace = options.namespace ?? where.namespace
  const apiKeys = startApiKeys(options.connection ? undefined : apiKey, (newest) => {
    void connection.setApiKey(newest)
    thread?.setApiKey(newest)
  })
  const temporal = { ...where, ...apiKeys.newest(), namespace }
  const connection = options.connection ?? (await connectNative(temporal))
  // The user's own connection cannot be shared with a thread or recreated there: then this event loop sends the heartbeats.
  const thread = options.connection ? undefined : await startHeartbeatThread(temporal)
  const { worker, connect, settle } = await createOrchestrator({
    ...options,
    connection,
    namespace,
    store,
    logger,
    ...(thread && { heartbeats: thread.heartbeats }),
  })
  const [orchestratorEnd, executorEnd] = loopback<FromExecutor, ToExecutor>()
  connect(orchestratorEnd)
  startExecutor({ id: 0, agents, services, logger, ownProcess: false }).connect(executorEnd)
  let running: Promise<void> | undefined

  async function runToEnd(): Promise<void> {
    try {
      await worker.run()
    } finally {
      await settle()
      apiKeys.end()
      await thread?.close()
      await store.close()
      if (!options.connection) await connection.close()
      await dispose()
    }
  }

  return {
    run: () => (running ??= runToEnd()),
    async shutdown() {
      worker.shutdown()
      await running
    },
    status() {
      return { state: worker.state(), ...worker.status() }
    },
  }
}

/** Passes the SDK's warnings and errors to the logger; by default, the SDK prints a line for each step of a worker. */
function quietRuntime(logger: Logger): void {
  const tell = ({ level, message, meta }: LogEntry): void => {
    // The worker for pawl's own activities has no workflows on purpose.
    if (!message.startsWith('No workflows registered')) logger[level === 'ERROR' ? 'error' : 'warn']({ ...meta }, message)
  }
  try {
    Runtime.install({ logger: new DefaultLogger('WARN', tell) })
  } catch {
    // The caller has installed its own runtime, or has a worker already.
  }
}
