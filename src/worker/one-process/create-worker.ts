// A worker in the caller's own process: an orchestrator and one executor, without a process boundary between them.
import { randomUUID } from 'node:crypto'
import { configuredNamespace, configuredTemporal } from '../../connect/temporal.ts'
import { openLogger } from '../../log/logger.ts'
import { userLogger } from '../../log/user-logger.ts'
import { openStore } from '../../store/index.ts'
import { startApiKeys } from '../api-keys.ts'
import { claimStore } from '../orchestrator/claim-store.ts'
import { loopback } from '../channel.ts'
import type { checkCreate } from '../check-options.ts'
import { checkAgents } from '../definition.ts'
import { closeSources } from '../executor/close-sources.ts'
import { startExecutor } from '../executor/executor.ts'
import { makeServices } from '../executor/services.ts'
import type { CreateWorkerOptions, PawlWorker } from '../options.ts'
import { identityOf } from '../orchestrator/executors/orphans.ts'
import { prepareOrchestrator } from '../orchestrator/orchestrator.ts'
import { installRuntime } from '../orchestrator/temporal/sdk-runtime.ts'
import { connectNative } from '../orchestrator/temporal/connection.ts'
import type { FromExecutor, ToExecutor } from '../protocol.ts'
import { storeOptions } from '../store-options.ts'
import { telemetrySettings } from '../telemetry-settings.ts'
import { openHeartbeatLine } from './threaded-heartbeats.ts'

type CheckedCreateOptions = CreateWorkerOptions & ReturnType<typeof checkCreate>

/** See `createWorker` of `pawl/worker`. */
export async function createWorker(options: CheckedCreateOptions): Promise<PawlWorker> {
  const opened = closers()
  try {
    return await assemble(options, opened)
  } catch (error) {
    // The reason why the worker could not start matters more than an error while closing.
    await opened.closeAll().catch(() => undefined)
    throw error
  }
}

interface Closers {
  add(close: () => unknown): void
  /** Closes everything in reverse order. Rejects with the first error. */
  closeAll(): Promise<void>
}

function closers(): Closers {
  const all: (() => unknown)[] = []
  return {
    add: (close) => void all.push(close),
    async closeAll() {
      const errors: unknown[] = []
      for (const close of all.toReversed()) {
        try {
          await close()
        } catch (error) {
          errors.push(error)
        }
      }
      if (errors.length > 0) throw errors[0]
    },
  }
}

async function assemble(options: CheckedCreateOptions, opened: Closers): Promise<PawlWorker> {
  const { agents } = checkAgents(options, 'createWorker')
  const logger = openLogger({ to: options.logger && userLogger(options.logger), redact: options.redact })
  const telemetry = telemetrySettings(options.telemetry)
  /** Absent for the user's own connection, which has its own address. */
  const resolved = options.connection ? undefined : configuredTemporal(options.temporal)
  const { apiKey, ...where } = resolved ?? {}
  const { dispose, services } = await makeServices(options.services)
  opened.add(dispose)
  opened.add(() => closeSources(agents))
  const namespace = options.namespace ?? resolved?.namespace ?? options.temporal?.namespace ?? configuredNamespace()
  const store = openStore({ ...storeOptions(options), namespace, logger, watch: 'always' })
  opened.add(() => store.close())
  const apiKeys = startApiKeys(apiKey, (newest) => {
    void connection.setApiKey(newest)
    line?.setApiKey(newest)
  })
  opened.add(() => apiKeys.end())
  const temporal = resolved && { ...where, ...apiKeys.newest(), namespace }
  // Only a connection ends the runtime, so nothing that may fail comes between them.
  const sdk = installRuntime(logger)
  const connection = options.connection ?? (await connectNative({ ...temporal }))
  if (!options.connection) opened.add(() => connection.close())
  await claimStore(store)
  // The user's own connection cannot be shared with a thread or recreated there, so this event loop sends the heartbeats.
  const line = temporal && (await openHeartbeatLine(temporal))
  opened.add(() => line?.close())
  const spans = telemetry?.traces && (await (await import('../executor/active-spans.ts')).activeSpans(telemetry.traces))
  const orchestrator = await prepareOrchestrator({
    ...options,
    size: 1,
    identity: identityOf(process.pid, randomUUID().slice(0, 8)),
    connection,
    ...(resolved && { address: resolved.address }),
    namespace,
    store,
    logger,
    sdk,
    telemetry,
    ...(line && { heartbeats: line.heartbeats }),
  })
  opened.add(orchestrator.settle)
  const worker = await orchestrator.createTemporalWorker()
  const [orchestratorEnd, executorEnd] = loopback<FromExecutor, ToExecutor>()
  orchestrator.connect(orchestratorEnd)
  startExecutor({ id: 0, agents, services, logger, ownProcess: false, spans }).connect(executorEnd)
  let running: Promise<void> | undefined

  async function runToEnd(): Promise<void> {
    try {
      await worker.run()
    } finally {
      await opened.closeAll()
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
