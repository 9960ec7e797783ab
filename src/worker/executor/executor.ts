// An executor: runs jobs with user code. When its orchestrator dies, it keeps its jobs and their results.
import type { ReadTarget } from '../../calls/reads.ts'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent } from '../../agent/agent.ts'
import type { AnyServices, Logger } from '../../agent/tool.ts'
import { type JobKind, type JobLink, type JobOrder, type JobOutcome, type ModelAnswer, nameOfSubject } from '../../calls/jobs.ts'
import { AttemptLost, TryAgain } from '../../calls/errors.ts'
import { carryOut } from '../../jobs/index.ts'
import { largeValues } from '../../jobs/large-values.ts'
import { stackOf } from '../../jobs/stack.ts'
import type { JobNeeds } from '../../jobs/needs.ts'
import { sessionViews } from '../../jobs/session-views.ts'
import { PawlError } from '../../session/errors.ts'
import type { Json } from '../../session/json.ts'
import type { Reservation } from '../../session/spending/reservation.ts'
import type { Channel } from '../channel.ts'
import { confirmedJustNow } from '../confirmed-just-now.ts'
import type { BodyWatch } from '../parent-watch.ts'
import type { FromExecutor, Holding, ToExecutor } from '../protocol.ts'
import { type AnswerStream, answerStreams } from './answer-stream.ts'
import type { ActiveSpans } from './active-spans.ts'
import { orchestratorLine } from './line.ts'
import { defined } from '../../session/defined.ts'
import { steadyNow } from '../steady-clock.ts'
import { beginningOf } from '../../session/beginning.ts'

const ALIVE_EVERY_MS = 1_000
/**
 * How long a result is kept for another orchestrator, because its receiver may die before the server has it. Passing it on takes
 * milliseconds while the server answers. Another attempt cannot reproduce the result of an `external` body, so pawl keeps it longer.
 */
const KEEP_ANSWER_MS = { repeatable: 5_000, external: 30_000 }

/** Dependencies of an executor. */
export interface ExecutorOptions {
  id: number
  agents: readonly Agent[]
  services: AnyServices
  logger: Logger
  /** Whether it runs in its own process, which outlives its orchestrator and can be killed if a body ignores its timeout. */
  ownProcess: boolean
  /** Ends this process if an `external` body is overdue and no orchestrator vouches for it. Absent: bodies share the process with theirs. */
  bodies?: BodyWatch | undefined
  /** Makes the span of a job active while it runs. Absent: there are no spans. */
  spans?: ActiveSpans | undefined
}

/** A running executor. */
export interface RunningExecutor {
  /** Accepts jobs from the orchestrator at the other end, from now on. */
  connect(channel: Channel<ToExecutor, FromExecutor>): void
}

/** A job that the executor holds. */
interface Held {
  order: JobOrder
  stop: AbortController
  begun: boolean
  entered?: { at: number; timeoutMs: number }
  progress?: Json
  reserved?: Reservation
  streamed?: number
  answer?: ModelAnswer
  said?: AnswerStream
  outcome?: JobOutcome
  /** Milliseconds for which the outcome is still kept. They count down only while an orchestrator is connected. */
  keepMs: number
}

/** Starts an executor. */
export function startExecutor({
  id,
  agents,
  services,
  logger,
  ownProcess,
  bodies,
  spans = (_, work) => work(),
}: ExecutorOptions): RunningExecutor {
  const held = new Map<string, Held>()
  const line = orchestratorLine()
  const worker = `${hostname()}:${process.pid}`
  const models = new Map(agents.flatMap(({ name, model }) => nameOf(model).map((known) => [name, known])))
  const hasSlices = agents.some(({ slices }) => slices.length > 0)
  const values = largeValues(
    {
      put: (sessionId, ref, json, from) => line.ask({ ask: 'put_value', sessionId, ref, json, ...from }),
      get: (sessionId, refs) => line.ask({ ask: 'get_values', sessionId, refs }),
    },
    logger,
  )
  const streamOf = answerStreams((parts) => line.post({ type: 'deltas', parts }))
  let shut: ReadonlySet<string> = new Set()
  const byName = new Map(agents.map((agent) => [agent.name, agent]))
  const needs: JobNeeds = {
    agents: byName,
    services,
    views: sessionViews({
      read: (target, from) => line.ask({ ask: 'entries', target, from }),
      values,
      slicesOf: (agent) => byName.get(agent)?.slices ?? [],
      hasHooks: (agent) => (byName.get(agent)?.hooks.length ?? 0) > 0,
      onSnapshots: (sessionId, snapshots) => line.post({ type: 'snapshots', sessionId, snapshots }),
      logger,
    }),
    values,
    earlierKeys: (sessionId, key) => line.ask({ ask: 'earlier_key', sessionId, key }),
    gates: {
      isShut: (key) => shut.has(key),
      placeOf: (key, call) => line.ask({ ask: 'place_at_gate', key, call }),
      refused: (key, forMs, isHeader) => line.post({ type: 'refused', key, forMs, isHeader }),
      accepted: (key) => line.post({ type: 'accepted_at_gate', key }),
    },
    logger,
    worker,
    killsOverdue: ownProcess,
  }
  let connected: Channel<ToExecutor, FromExecutor> | undefined
  /** Whether the connected orchestrator receives attempts. */
  let isServed = false

  setInterval(() => {
    if (!connected) return
    line.post({ type: 'alive' })
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
      case 'checkpoint':
        return void keepUp(message.target)
      default:
        line.receive(message)
    }
  }

  /** Snapshots are a cache: if folding fails now, the next job folds the slices, or the client that reads them does. */
  async function keepUp(target: ReadTarget): Promise<void> {
    try {
      await needs.views.keepUp(target)
    } catch (err) {
      logger.debug({ session: target.sessionId, err }, 'the slices of a checkpoint could not be folded')
    }
  }

  async function run({ job, order, along }: ToExecutor & { type: 'job' }): Promise<void> {
    const one: Held = { order, stop: new AbortController(), begun: false, keepMs: keepMsOf(order) }
    held.set(job, one)
    line.post({ type: 'accepted', job })
    const outcome = await outcomeOf(
      (error) => logThrown(order, one, error),
      () =>
        spans(order, () =>
          carryOut(
            order.kind,
            needs,
            {
              sessionId: order.ticket.sessionId,
              executionId: order.ticket.executionId,
              attempt: order.attempt,
              link: linkOf(job, one),
              ...(along && { along }),
              ...(order.answer && { answer: order.answer }),
            },
            order.input,
          ),
        ),
    )
    bodies?.left(job)
    one.said?.end()
    one.outcome = outcome
    line.post({ type: 'done', job, outcome })
    if (!ownProcess) held.delete(job)
  }

  /** The workflow learns the message only, and a stop is not a failure. */
  function logThrown({ kind, ticket: { sessionId: session, subject } }: JobOrder, { stop }: Held, error: unknown): void {
    if (stop.signal.aborted || (error instanceof PawlError && !stackOf(error)?.hasOwn)) return
    const about = 'tool' in subject ? { call: nameOfSubject(subject), tool: subject.tool } : {}
    logger.warn({ session, ...about, err: error }, `${STEPS[kind]} failed with an exception`)
  }

  function linkOf(job: string, one: Held): JobLink {
    return {
      signal: one.stop.signal,
      async begin() {
        one.begun = true
        // The answer may have waited for another body that blocked the event loop.
        if (!(await confirmedJustNow(() => line.ask({ ask: 'begin', job })))) throw new AttemptLost()
      },
      entered(timeoutMs: number) {
        if (one.order.ticket.once) bodies?.entered(job, timeoutMs)
        one.entered = { at: steadyNow(), timeoutMs }
        line.post({ type: 'entered', job, timeoutMs })
      },
      progress(value: Json) {
        one.progress = value
        line.post({ type: 'progress', job, value })
      },
      async reserve(reservation) {
        // Set before the confirmation: if the orchestrator dies first, the next one learns of the reservation from the `hello`.
        one.reserved = reservation
        delete one.streamed
        await confirmed(() => line.ask({ ask: 'reserve', job, reservation }), one.stop.signal)
      },
      asked: (timed) => line.post({ type: 'asked', job, timed }),
      streamed: reportStreamed(job, one),
      delta(piece) {
        one.said ??= streamOf(job)
        one.said.add(piece)
      },
      answered(answer) {
        one.said?.end()
        one.answer = answer
        line.post({ type: 'answered', job, answer })
      },
      stillMine: () => line.ask({ ask: 'still_mine', job }),
    }
  }

  /** Reports at most once every few milliseconds: a stream has a piece for every other word. */
  function reportStreamed(job: string, one: Held): (tokens: number) => void {
    let isDue = false
    return (tokens) => {
      one.streamed = tokens
      if (isDue) return
      isDue = true
      setTimeout(() => {
        isDue = false
        if (!one.outcome && one.streamed !== undefined) line.post({ type: 'streamed', job, tokens: one.streamed })
      }, REPORT_EVERY_MS)
    }
  }

  function holdings(): Holding[] {
    return [...held].map(([job, { order, begun, entered, progress, reserved, streamed, said, answer, outcome }]) => ({
      job,
      order,
      begun,
      ...(entered && { entered: { agoMs: steadyNow() - entered.at, timeoutMs: entered.timeoutMs } }),
      ...defined({ progress, reserved, streamed, answer }),
      ...(said && !outcome && { said: said.soFar() }),
      ...(outcome && { outcome }),
    }))
  }

  return {
    connect(channel) {
      channel.onMessage(receive)
      channel.onClose(() => connected === channel && (connected = undefined))
      connected = channel
      isServed = false
      // The `hello` reports all outcomes again, so their countdown restarts with the new orchestrator.
      for (const one of held.values()) one.keepMs = keepMsOf(one.order)
      line.connect(channel, { type: 'hello', executor: id, pid: process.pid, worker, models, hasSlices, holding: holdings() })
    },
  }
}

/** Short, so that a killed executor has received little that it had not reported. */
const REPORT_EVERY_MS = 20
const CONFIRM_RETRY_MS = 250

/** Asks until the server confirms, because it may be unavailable for a while. @throws AttemptLost, or the signal's reason. */
async function confirmed(ask: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    try {
      await ask()
      return
    } catch (error) {
      if (error instanceof AttemptLost) throw error
      await sleep(CONFIRM_RETRY_MS, undefined, { signal })
    }
  }
}

/** The model's name, unless it is chosen for each call. */
function nameOf(model: Agent['model']): string[] {
  if (typeof model === 'function') return []
  return [typeof model === 'string' ? model : model.name]
}

const STEPS: Record<JobKind, string> = {
  callModel: 'a model call',
  compact: 'a compaction',
  executeTool: 'a tool call',
  verifyTool: 'verify',
  resolveTool: 'the check of a call',
  checkAnswer: "the check of a client's answer",
  endHooks: "a run's last hooks",
}

const keepMsOf = ({ ticket }: JobOrder): number => (ticket.once ? KEEP_ANSWER_MS.external : KEEP_ANSWER_MS.repeatable)

/** How the job ended, as data. */
async function outcomeOf(onThrown: (error: unknown) => void, work: () => Promise<unknown>): Promise<JobOutcome> {
  try {
    return { kind: 'answered', result: await work() }
  } catch (error) {
    if (error instanceof TryAgain) {
      const { type, message, afterMs, failed } = error
      return { kind: 'again', type, message, afterMs, ...(failed && { failed }) }
    }
    onThrown(error)
    return threw(error)
  }
}

const MAX_TEXT = 4_000

/** Any value may be thrown, even one that throws when it is read. */
function threw(error: unknown): JobOutcome {
  try {
    if (!(error instanceof Error)) return { kind: 'threw', type: typeof error, message: beginningOf(String(error), MAX_TEXT) }
    const { name, message } = error
    return {
      kind: 'threw',
      type: beginningOf(String(name), MAX_TEXT),
      message: beginningOf(String(message), MAX_TEXT),
      ...defined({ stack: stackOf(error)?.text }),
    }
  } catch {
    return { kind: 'threw', type: 'Error', message: 'The code threw a value that cannot be converted to text.' }
  }
}
