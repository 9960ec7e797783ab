// The activities that run user code: each counts its attempt, runs the job on an executor, and returns the executor's answer.
import { ApplicationFailure, Context } from '@temporalio/activity'
import { inTime } from '../waiting/in-time.ts'
import { defined } from '../session/defined.ts'
import { callIdOf } from '../session/ids.ts'
import { currentSession } from './current-session.ts'
import { isForeignPast } from '../store/errors.ts'
import type { JobInput, JobKind, JobOrder, JobResult, JobSubject, Ticket } from '../calls/jobs.ts'
import { lostIn, type AttemptSoFar, type AttemptReport, readReport, countAttempt, reportOf } from '../session/attempts.ts'
import type {
  AskModelInput,
  CallModelInput,
  CompactInput,
  CompactResult,
  ExecuteToolInput,
  PawlActivities,
  ToolCallInput,
} from '../calls/activities.ts'
import { readTarget } from '../calls/reads.ts'
import type { Flusher } from './flusher.ts'
import { startRunningRow } from './running-row.ts'
import type { ActivityNeeds } from './needs.ts'

const DEFAULT_HEARTBEAT_MS = 10_000
const NO_EXECUTOR_RETRY_MS = 1_000
/** A flush takes milliseconds, and the model's answer takes longer. If the store is unavailable, no session waits for it. */
const CONFIRMED_WITHIN_MS = 1_000

export function userCodeActivities(needs: ActivityNeeds, flusher: Flusher): Pick<PawlActivities, JobKind> {
  const { client, worker } = needs

  function orderOf<K extends JobKind>(
    kind: K,
    input: JobInput<K>,
    attempt: AttemptSoFar,
    about: Pick<Ticket, 'subject' | 'once'>,
  ): JobOrder<K> {
    return { kind, input, attempt, ticket: { ...currentTicket(), report: reportOf(attempt, worker), ...about } }
  }

  /** Runs the job. Returns undefined if no executor could accept it. */
  async function run<K extends JobKind>(order: JobOrder<K>): Promise<JobResult<K> | undefined> {
    const done = await needs.dispatch(order)
    return done && (done.result as JobResult<K>)
  }

  async function callModel(input: CallModelInput): Promise<Awaited<ReturnType<PawlActivities['callModel']>>> {
    const { run: number, turn, prior, untilServed } = input
    const { report: earlier } = readReport(Context.current().info.heartbeatDetails)
    if (earlier?.riding) throw lostWithCall(earlier)
    const { attempt, isGivenUp } = count({ prior, ...(untilServed && { uncounted: true }) })
    if (isGivenUp) return givenUp('the model call', attempt)
    const order = orderOf('callModel', olderBy(waitedMs(), input), attempt, { subject: { of: 'model', run: number, turn } })
    const { isNew } = input
    const target = { ...readTarget(order.ticket, input), ...defined({ isNew }) }
    const confirmed = isNew && isConfirmed(flusher.flush(target, client))
    if (!confirmed) flusher.nudge(target, client)
    const result = await run(order)
    // This must happen before the answer can have an effect.
    const is = await confirmed
    if (is === 'foreign') return { kind: 'foreign_past' }
    if (result) return is === 'new' ? { ...result, isConfirmed: true } : result
    if (untilServed) throw noExecutor(worker)
    return { kind: 'not_served', ...lostIn(attempt) }
  }

  async function compact(input: CompactInput): Promise<CompactResult> {
    const { run: number, turn, prior, untilServed } = input
    const { attempt, isGivenUp } = count({ prior, ...(untilServed && { uncounted: true }) })
    if (isGivenUp) return givenUp('the compaction', attempt)
    const result = await run(orderOf('compact', olderBy(waitedMs(), input), attempt, { subject: { of: 'compaction', run: number, turn } }))
    if (result) return result
    if (untilServed) throw noExecutor(worker)
    return { kind: 'not_served', ...lostIn(attempt) }
  }

  async function executeTool(input: ExecuteToolInput): Promise<Awaited<ReturnType<PawlActivities['executeTool']>>> {
    const { prior, progress, untilServed, untilAdmitted, resolution } = input
    const onlyWaits = untilServed ?? untilAdmitted
    const { attempt, isGivenUp } = count({ prior, progress, ...(onlyWaits && { uncounted: true }) })
    if (isGivenUp) {
      const message = 'This call was given up, because too many executors died during it.'
      return { kind: 'failed', attempt: attempt.number, code: 'worker_died', message, failed: attempt.failed }
    }
    const order = orderOf('executeTool', input, attempt, {
      subject: subjectOf(input),
      ...(resolution.effect === 'external' && { once: true }),
    })
    const result = await shown(order).catch((error: unknown) => {
      // The call may wait for long, and nothing else would store what led to it until it runs.
      if (untilAdmitted) nudge(order)
      throw error
    })
    if (result) return result
    if (onlyWaits) throw noExecutor(worker)
    return { kind: 'not_begun', attempt: attempt.number - 1, ...lostIn(attempt) }
  }

  function nudge({ input, ticket }: JobOrder<'executeTool'>): void {
    flusher.nudge(readTarget(ticket, input), client)
  }

  /** Runs a tool and shows the call in `tool_calls` while it runs. */
  async function shown(order: JobOrder<'executeTool'>): Promise<JobResult<'executeTool'> | undefined> {
    let row: ReturnType<typeof startRunningRow> | undefined
    try {
      const done = await needs.dispatch(order, {
        entered: (on) => {
          // When a call moves to another executor, its body is entered again there.
          row?.stop()
          row = startRunningRow({ ...needs, flusher }, order, on)
        },
        progress: (value) => row?.progress(value),
      })
      return done && (done.result as JobResult<'executeTool'>)
    } finally {
      row?.stop()
    }
  }

  /** The sender of an update is waiting, so a retry also waits for executors that are starting. */
  function answered<R>(result: R | undefined): R {
    if (result === undefined) throw noExecutor(worker)
    return result
  }

  return {
    callModel,
    compact,
    executeTool,
    async verifyTool(input) {
      return (await run(orderOf('verifyTool', input, uncounted(), { subject: subjectOf(input) }))) ?? { kind: 'not_begun' }
    },
    async resolveTool(input) {
      const { run: number, turn, index, generation, tool } = input
      const subject = { of: 'resolution', callId: callIdOf(number, turn, index, generation), tool } as const
      return answered(await run(orderOf('resolveTool', input, uncounted(), { subject })))
    },
    async endHooks(input) {
      const { attempt } = count({})
      return answered(await run(orderOf('endHooks', input, attempt, { subject: { of: 'hooks', run: input.run, turn: input.turn } })))
    },
    async checkAnswer(input) {
      return answered(await run(orderOf('checkAnswer', input, uncounted(), { subject: { ...subjectOf(input), of: 'answer' } })))
    },
  }
}

function givenUp(what: string, attempt: AttemptSoFar) {
  const reason = `Too many executors died during ${what}.`
  return { kind: 'failed', code: 'worker_died', reason, ...lostIn(attempt) } as const
}

/** The part of a ticket that describes the current activity. */
function currentTicket(): Omit<Ticket, 'report' | 'subject' | 'once'> {
  const { taskToken, activityId, heartbeatTimeoutMs = DEFAULT_HEARTBEAT_MS } = Context.current().info
  const { client: _, ...session } = currentSession()
  return { ...session, taskToken, activityId, heartbeatTimeoutMs }
}

/** Milliseconds since the activity was scheduled: how long its earlier attempts took. */
function waitedMs(): number {
  const { scheduledTimestampMs, currentAttemptScheduledTimestampMs } = Context.current().info
  return currentAttemptScheduledTimestampMs - scheduledTimestampMs
}

/** The input as it would be `ms` milliseconds later. */
function olderBy<I extends AskModelInput>(ms: number, input: I): I {
  const { runMs, sessionMs, leftMs } = input
  return { ...input, runMs: runMs + ms, sessionMs: sessionMs + ms, ...(leftMs !== undefined && { leftMs: leftMs - ms }) }
}

/** Makes Temporal retry: executors may be starting. */
function noExecutor(worker: string): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'NotServed',
    message: `${worker} has no executor that can accept the job`,
    nextRetryDelay: NO_EXECUTOR_RETRY_MS,
  })
}

/** An earlier attempt was lost while it made a call with an effect. The workflow continues from its report. */
function lostWithCall(report: AttemptReport): ApplicationFailure {
  const message = 'The attempt before this one was lost during a call.'
  return ApplicationFailure.create({ type: 'WorkerLost', nonRetryable: true, message, details: [report] })
}

function count(earlier: Parameters<typeof countAttempt>[1]) {
  return countAttempt(Context.current().info, earlier)
}

/** The attempt of an activity that only asks a question: these are not counted. After a death, Temporal repeats it, or for `verify` the workflow does. */
function uncounted(): AttemptSoFar {
  return { number: 1, failed: [], failures: 0 }
}

function subjectOf({ run, turn, resolution }: ToolCallInput): JobSubject & { of: 'tool' | 'resolution' | 'answer' } {
  return { of: 'tool', callId: callIdOf(run, turn, resolution.index, resolution.generation), tool: resolution.tool }
}

/** Whether the session is new to the store. Returns undefined if the store does not say in time; the session then continues without it. */
async function isConfirmed(flushed: Promise<number>): Promise<'new' | 'foreign' | undefined> {
  const answer = flushed.then(
    () => 'new' as const,
    (error: unknown) => (isForeignPast(error) ? ('foreign' as const) : undefined),
  )
  return inTime(answer, CONFIRMED_WITHIN_MS)
}
