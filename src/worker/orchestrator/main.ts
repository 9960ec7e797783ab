// The process of an orchestrator. Its parent starts it, executors connect to it, and it ends with its parent.
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { configuredTemporal } from '../../connect/temporal.ts'
import { crossing } from '../errors.ts'
import { ignoreGroupSignals } from '../group-signals.ts'
import { endWithParent } from '../parent-watch.ts'
import { openStore } from '../../store/index.ts'
import { socketChannel } from '../channel.ts'
import { claimStore } from './claim-store.ts'
import type { Logger } from '../../agent/tool.ts'
import { sendingLogger } from '../../log/sending-logger.ts'
import { openLogger } from '../../log/logger.ts'
import { nameOfSubject, type Ticket } from '../../calls/jobs.ts'
import type { HeldCall, ProcessDeath } from '../options.ts'
import type {
  ExitedExecutor,
  FromExecutor,
  FromOrchestrator,
  OrchestratorOptions,
  SpareOptions,
  ToExecutor,
  ToOrchestrator,
} from '../protocol.ts'
import { cachedReporter } from './cached-reports.ts'
import { type Orchestrator, prepareOrchestrator } from './orchestrator.ts'
import { prepareWorkers, type TemporalWorker } from './temporal/workers.ts'
import { startRecoveryClock } from './resumption-clock.ts'
import { type Executor, isHeld } from './executors/executor-state.ts'
import { identityOf, releaseOrphans } from './executors/orphans.ts'
import { installRuntime } from './temporal/sdk-runtime.ts'
import { concurrently } from '../../waiting/concurrently.ts'
import { AT_ONCE, resetStickiness } from './temporal/stickiness.ts'
import { connectNative } from './temporal/connection.ts'
import { loadDataConverter, loadInterceptors } from './temporal/user-modules.ts'
import { startWatch } from './executors/stuck-executors.ts'
import { defined } from '../../session/defined.ts'

const ALIVE_EVERY_MS = 1_000
const LOOK_EVERY_MS = 20
/** How long to wait for executors: unless they are blocked, they connect to a new orchestrator at once. */
const HELLO_MS = 5_000

ignoreGroupSignals()
endWithParent()

/** Messages from the parent wait until they can be handled. */
const early: ToOrchestrator[] = []
let take = (message: ToOrchestrator): void => void early.push(message)
process.on('message', (message: ToOrchestrator) => take(message))

async function next(): Promise<ToOrchestrator> {
  while (early.length === 0) await once(process, 'message')
  return early.shift() as ToOrchestrator
}

function receive(listener: (message: ToOrchestrator) => void): void {
  take = listener
  for (const message of early.splice(0)) listener(message)
}

const loggerOf = ({ redact, toParent }: OrchestratorOptions['log']): Logger =>
  openLogger({ redact, ...(toParent && { to: sendingLogger((line) => post({ type: 'log', ...line })) }) })

/** Loads the only code of the user's that an orchestrator runs. @throws as `loadDataConverter`. */
async function userCodeOf({ dataConverter, interceptors, folder }: SpareOptions) {
  return {
    ...(dataConverter !== undefined && { dataConverter: await loadDataConverter(dataConverter) }),
    ...(interceptors !== undefined && { interceptors: await loadInterceptors(interceptors) }),
    bundleFolder: folder,
  }
}

/** As a spare. What fails here fails again, and is reported, once it is needed. */
async function prepare(options: SpareOptions): Promise<void> {
  const logger = loggerOf(options.log)
  try {
    await prepareWorkers(await userCodeOf(options), logger)
  } catch (err) {
    logger.debug({ err }, 'a spare process could not load the workflow code in advance')
  }
}

async function main(options: OrchestratorOptions, prepared: Promise<void> | undefined): Promise<void> {
  const logger = loggerOf(options.log)
  const sdk = installRuntime(logger, { shutdownSignals: [] })
  let executors = (): Iterable<Executor> => []
  setInterval(() => post({ type: 'alive', holds: [...executors()].filter(isHeld).map(({ id }) => id) }), ALIVE_EVERY_MS).unref()
  const { temporal, postgres, schema, migrate, taskQueue } = options
  const { address, namespace } = configuredTemporal(temporal)
  const store = openStore({
    postgres,
    namespace,
    logger,
    watch: 'always',
    ...defined({ schema, migrate }),
  })
  // In parallel, because sessions wait for a worker that replaces a dead one.
  const [connection] = await Promise.all([connectNative(temporal), claimStore(store)])
  post({ type: 'connected' })
  const clock = startRecoveryClock((event) => post({ type: 'event', event }))
  const exits = new Map<number, ProcessDeath>()
  /** Dead executors by number. */
  const gone = new Map(options.exited.map((one) => [one.executor, one]))
  const reportDeath = (id: number, calls: HeldCall[]): void => {
    const exit = exits.get(id)
    if (exit && exits.delete(id)) post({ type: 'event', event: { event: 'worker_died', ...exit, calls } })
  }
  /** `isKnown`: whether the executor had connected, so that its attempts end with it. */
  const noteExit = ({ executor, pid }: ExitedExecutor, isKnown: boolean): void => {
    gone.set(executor, { executor, pid, ...(!isKnown && options.executors.includes(executor) && { isUnseen: true as const }) })
    if (!isKnown) reportDeath(executor, [])
  }
  let temporalWorker: TemporalWorker | undefined
  let isStopping = false
  const orchestrator = await prepareOrchestrator({
    ...defined({ taskQueue, telemetry: options.telemetry }),
    ...(await userCodeOf(options)),
    identity: identityOf(process.pid, options.workerSecret),
    predecessors: options.predecessors.map((pid) => identityOf(pid, options.workerSecret)),
    healAfterMs: options.healAfterMs,
    failing: {
      earlier: options.failing,
      note: (execution) => post({ type: 'failing', execution }),
      forget: (executionId) => post({ type: 'no_longer_failing', executionId }),
    },
    connection,
    address,
    namespace,
    store,
    logger,
    sdk,
    size: options.processes,
    kill: (executor, why) => post({ type: 'kill', executor, why }),
    onDrained: (executor) => post({ type: 'drained', executor }),
    onReady: ({ id }) => post({ type: 'executor_ready', executor: id }),
    onJob: ({ ticket }, { pid }) => clock.runsAgain(heldCallOf(ticket), pid),
    onDeath: ({ id }, held) => {
      const calls = held.map(({ ticket }) => heldCallOf(ticket))
      clock.died(calls, exits.get(id)?.at ?? Date.now())
      reportDeath(id, calls)
    },
    onExecution: cachedReporter((executions) => post({ type: 'cached', executions })),
  })
  executors = orchestrator.pool.executors
  const server = await listen(options.socketPath, orchestrator)
  const endWatch = startWatch(orchestrator.pool, options.stuckLoopMs)
  receive((message) => {
    switch (message.type) {
      case 'executor_exited':
        exits.set(message.executor, exitOf(message))
        noteExit(message, orchestrator.pool.exited(message.executor))
        return
      case 'exited':
        for (const one of message.exited) gone.set(one.executor, one)
        return
      case 'retire':
        for (const executor of message.executors) orchestrator.pool.retire(executor)
        return
      case 'api_key':
        return void connection.setApiKey(message.apiKey)
      case 'shutdown':
        isStopping = true
        return temporalWorker?.shutdown()
      case 'prepare':
      case 'start':
        return
    }
  })
  void takeOver(orchestrator, options, gone, logger)
  await prepared
  temporalWorker = await orchestrator.createTemporalWorker()
  if (isStopping) temporalWorker.shutdown()
  post({ type: 'serving' })
  await temporalWorker.run()
  await idle(orchestrator)
  await orchestrator.settle()
  endWatch()
  server.close()
  await store.close()
  await connection.close()
}

/** Resumes the sessions of a dead orchestrator: returns its undispatched attempts and resets stickiness. */
async function takeOver(
  { client, pool, hasAdopted }: Orchestrator,
  { cached, executors, predecessors, workerSecret }: OrchestratorOptions,
  gone: ReadonlyMap<number, ExitedExecutor>,
  logger: Logger,
): Promise<void> {
  void concurrently(cached, AT_ONCE, (execution) => resetStickiness(client, execution, logger))
  // An executor that has not sent its hello may hold attempts. For attempts that died with an executor, their heartbeats say more.
  const isKnown = (id: number): boolean => gone.has(id) || [...pool.executors()].some((executor) => executor.id === id)
  for (const until = Date.now() + HELLO_MS; !executors.every(isKnown); ) {
    if (Date.now() > until) return
    await sleep(LOOK_EVERY_MS)
  }
  await concurrently(cached, AT_ONCE, (execution) =>
    releaseOrphans(
      client,
      execution,
      {
        workerSecret,
        predecessors,
        exited: [...gone.values()].map(({ pid }) => pid),
        mayHaveHeld: [...gone.values()].some(({ isUnseen }) => isUnseen),
        isHeld: hasAdopted,
      },
      logger,
    ),
  )
}

function exitOf({ pid, code, signal, killedFor }: ToOrchestrator & { type: 'executor_exited' }): ProcessDeath {
  return { pid, code, signal, at: Date.now(), ...defined({ killedFor }) }
}

async function listen(path: string, { connect }: Orchestrator): Promise<Server> {
  const server = createServer((socket) => connect(socketChannel<FromExecutor, ToExecutor>(socket)))
  server.listen(path)
  await once(server, 'listening')
  post({ type: 'listening' })
  return server
}

/** Resolves when no executor holds a job. This is needed because the Temporal worker does not wait for adopted jobs. */
async function idle({ pool }: Orchestrator): Promise<void> {
  while ([...pool.executors()].some(({ assignments }) => assignments.size > 0)) {
    await sleep(LOOK_EVERY_MS)
  }
}

function post(message: FromOrchestrator): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
}

try {
  let message = await next()
  const prepared = message.type === 'prepare' ? prepare(message.options) : undefined
  if (prepared) message = await next()
  if (message.type === 'start') await main(message.options, prepared)
  process.exit(0)
} catch (error) {
  post({ type: 'failed', error: crossing(error) })
  process.exit(1)
}

function heldCallOf({ sessionId, subject }: Ticket): HeldCall {
  return { sessionId, call: nameOfSubject(subject), ...('tool' in subject && { tool: subject.tool }) }
}
