// An executor: runs jobs with user code. When its orchestrator dies, it keeps its jobs and their results.
import type { ReadTarget } from '../../calls/reads.ts'
import { hostname } from 'node:os'
import type { Agent } from '../../agent/agent.ts'
import type { AnyServices, Logger } from '../../agent/tool.ts'
import { AttemptLost } from '../../calls/errors.ts'
import { largeValues } from '../../jobs/large-values.ts'
import type { JobNeeds, Job } from '../../jobs/needs.ts'
import { QUICK_TOOLS } from '../../jobs/quick-tools.ts'
import { sessionViews } from '../../jobs/session-views.ts'
import { defined } from '../../session/defined.ts'
import type { Channel } from '../channel.ts'
import type { BodyWatch } from '../parent-watch.ts'
import type { FromExecutor, ToExecutor } from '../protocol.ts'
import { quickCalls } from '../quick-calls.ts'
import { startUplink } from './uplink.ts'
import type { ActiveSpans } from './active-spans.ts'
import { type HeldJob, holdingsOf, keepMsOf, linkTo } from './held-job.ts'
import { logThrown, outcomeOf } from './outcome.ts'
import { callModel } from '../../jobs/model-call/call-model.ts'
import { compact } from '../../jobs/model-call/compact.ts'
import type { JobInput, JobKind, JobResult } from '../../calls/jobs.ts'
import { endHooks } from '../../jobs/end-hooks.ts'
import { executeTool } from '../../jobs/tool-call/execute-tool.ts'
import { checkAnswer, resolveTool } from '../../jobs/tool-call/outside.ts'
import { verifyTool } from '../../jobs/tool-call/verify-tool.ts'

const ALIVE_EVERY_MS = 1_000

export interface ExecutorOptions {
  id: number
  agents: readonly Agent[]
  services: AnyServices
  logger: Logger
  /** Whether it runs in its own process. Such a process outlives its orchestrator and can be killed if a body ignores its timeout. */
  ownProcess: boolean
  /**
   * Ends this process if an `external` body is overdue and no orchestrator vouches for it. Absent if the executor shares the orchestrator's
   * process.
   */
  bodies?: BodyWatch | undefined
  /** Makes the span of a job active while it runs. Absent if there are no spans. */
  spans?: ActiveSpans | undefined
}

export interface RunningExecutor {
  /** Accepts jobs from the orchestrator at the other end, from now on. */
  connect(channel: Channel<ToExecutor, FromExecutor>): void
}

export function startExecutor({
  id,
  agents,
  services,
  logger,
  ownProcess,
  bodies,
  spans = (_, work) => work(),
}: ExecutorOptions): RunningExecutor {
  const held = new Map<string, HeldJob>()
  const uplink = startUplink()
  const worker = `${hostname()}:${process.pid}`
  const models = new Map(agents.flatMap(({ name, model }) => nameOf(model).map((known) => [name, known])))
  const hasSlices = agents.some(({ slices }) => slices.length > 0)
  const values = largeValues(
    {
      put: (sessionId, ref, json, from) => uplink.ask({ ask: 'put_value', sessionId, ref, json, ...from }),
      get: (sessionId, refs) => uplink.ask({ ask: 'get_values', sessionId, refs }),
      piece: (sessionId, sha256, from) => uplink.ask({ ask: 'get_piece', sessionId, sha256, from }),
    },
    logger,
  )
  let shut: ReadonlySet<string> = new Set()
  let shared: readonly { tag: string | null; agent: string | null }[] = []
  const byName = new Map(agents.map((agent) => [agent.name, agent]))
  const needs: JobNeeds = {
    agents: byName,
    services,
    views: sessionViews({
      read: (target, from) => uplink.ask({ ask: 'entries', target, from }),
      values,
      slicesOf: (agent) => byName.get(agent)?.slices ?? [],
      hasHooks: (agent) => (byName.get(agent)?.hooks.length ?? 0) > 0,
      onSnapshots: (sessionId, snapshots) => uplink.post({ type: 'snapshots', sessionId, snapshots }),
      logger,
    }),
    values,
    contextRules: (of) => uplink.ask({ ask: 'context_rules', of }),
    earlierKeys: (sessionId, key) => uplink.ask({ ask: 'earlier_key', sessionId, key }),
    gates: {
      isShut: (key) => shut.has(key),
      slotFor: (key, call) => uplink.ask({ ask: 'gate_slot', key, call }),
      refused: (key, forMs, isHeader) => uplink.post({ type: 'refused', key, forMs, isHeader }),
      accepted: (key) => uplink.post({ type: 'accepted_at_gate', key }),
    },
    sharesBudget: (agent, tags) => shared.some((one) => one.agent === agent || (one.tag !== null && tags.includes(one.tag))),
    quickTools: QUICK_TOOLS[quickCalls()](),
    inToolSpan: ({ sessionId, attempt }, input, work) => spans({ kind: 'executeTool', input, attempt, ticket: { sessionId } }, work),
    logger,
    worker,
    killsOverdue: ownProcess,
  }
  let connected: Channel<ToExecutor, FromExecutor> | undefined
  /** Whether the connected orchestrator already receives attempts. */
  let isServed = false

  setInterval(() => {
    if (!connected) return
    uplink.post({ type: 'alive' })
    if (!isServed) return
    for (const [job, one] of held) if (one.outcome && (one.keepMs -= ALIVE_EVERY_MS) <= 0) held.delete(job)
  }, ALIVE_EVERY_MS).unref()

  function receive(message: ToExecutor): void {
    switch (message.type) {
      case 'job':
        if (!held.has(message.job)) void run(message)
        return
      case 'stop':
        held.get(message.job)?.stop.abort(new AttemptLost({ cause: message.why }))
        if (message.why === 'moved') held.delete(message.job)
        return
      case 'serving':
        isServed = true
        return
      case 'gates':
        shut = new Set(message.keys)
        return
      case 'shared_budgets':
        shared = message.of
        return
      case 'checkpoint':
        return void catchUp(message.target)
      default:
        uplink.receive(message)
    }
  }

  /** Snapshots are a cache. If folding fails now, the next job folds the slices, or the client that reads them does. */
  async function catchUp(target: ReadTarget): Promise<void> {
    try {
      await needs.views.catchUp(target)
    } catch (err) {
      logger.debug({ session: target.sessionId, err }, 'the slices of a checkpoint could not be folded')
    }
  }

  async function run({ job, order, along, heldBack, share }: ToExecutor & { type: 'job' }): Promise<void> {
    const one: HeldJob = { order, stop: new AbortController(), begun: false, keepMs: keepMsOf({ order }), ...defined({ share }) }
    held.set(job, one)
    uplink.post({ type: 'accepted', job })
    const outcome = await outcomeOf(
      (error) => logThrown(logger, order, one.stop.signal, error),
      () =>
        spans(order, () =>
          carryOut(
            order.kind,
            needs,
            {
              sessionId: order.ticket.sessionId,
              executionId: order.ticket.executionId,
              attempt: order.attempt,
              link: linkTo(job, one, uplink, bodies),
              ...defined({ along, heldBack }),
              ...(order.answer && { answer: order.answer }),
            },
            order.input,
          ),
        ),
    )
    bodies?.left(job)
    one.output?.end()
    one.outcome = outcome
    one.keepMs = keepMsOf(one)
    uplink.post({ type: 'done', job, outcome })
    if (!ownProcess) held.delete(job)
  }

  return {
    connect(channel) {
      channel.onMessage(receive)
      channel.onClose(() => connected === channel && (connected = undefined))
      connected = channel
      isServed = false
      // The `hello` reports all outcomes again, so their countdown restarts with the new orchestrator.
      for (const one of held.values()) one.keepMs = keepMsOf(one)
      uplink.connect(channel, { type: 'hello', executor: id, pid: process.pid, worker, models, hasSlices, holding: holdingsOf(held) })
    },
  }
}

/** The model's name, unless it is chosen for each call. */
function nameOf(model: Agent['model']): string[] {
  if (typeof model === 'function') return []
  return [typeof model === 'string' ? model : model.name]
}

/** The jobs of an executor, by kind. */
type CarryOut<K extends JobKind> = (needs: JobNeeds, job: Job, input: JobInput<K>) => Promise<JobResult<K>>

const JOBS: { [K in JobKind]: CarryOut<K> } = { callModel, compact, executeTool, verifyTool, resolveTool, checkAnswer, endHooks }

/** Carries out a job. @throws TryAgain, and errors of user code that must fail the activity. */
function carryOut<K extends JobKind>(kind: K, needs: JobNeeds, job: Job, input: JobInput<K>): Promise<JobResult<K>> {
  return JOBS[kind](needs, job, input)
}
