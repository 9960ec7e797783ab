// What the steps that ask a model have in common: the agent, its facts, the deadline, and the session's events.
import { lostIn } from '../../session/attempts.ts'
import type { AskModelInput, NoAnswer, StepReport } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import type { AgentFacts, SessionLimits } from '../../session/agent-facts.ts'
import { failedAttempt } from '../attempt.ts'
import { ArchiveUnavailable, archiveAway, budgetAway, notServed, StaleWatermark, TryAgain } from '../../calls/errors.ts'
import { readTarget } from '../../calls/reads.ts'
import type { SharedWarning } from '../../session/spending/spend.ts'
import type { Job, JobNeeds } from '../needs.ts'
import type { FoldedSession } from '../session-views.ts'
import { TOO_LATE } from '../../session/deadlines.ts'
import { LONGEST_MS } from '../../session/duration.ts'
import { defined } from '../../session/defined.ts'
import { shortHash } from '../../session/digest.ts'
import type { HookEvent } from '../../session/hooks/hooks.ts'

const STORE_RETRY_MS = 500

export interface ModelStep {
  agent: Agent
  deadline: CallDeadline
  /** The step may add failed attempts to it, which the result then includes. */
  job: Job
  view: FoldedSession
}

/** Runs the step. The result includes failed attempts, and facts about the agent that the session does not know. @throws TryAgain. */
export async function modelStep<R extends object>(
  needs: JobNeeds,
  job: Job,
  input: AskModelInput,
  step: (step: ModelStep) => Promise<R | NoAnswer>,
): Promise<R | (StepReport & NoAnswer)> {
  const agent = needs.agents.get(input.agent)
  if (!agent) {
    if (!input.untilServed) return { kind: 'not_served', ...lostIn(job.attempt) }
    throw notServed(needs.worker, `the agent "${input.agent}"`)
  }
  const deadline = startDeadline(agent, input)
  const { attempt } = job
  const failed = [...attempt.failed]
  const facts = factsOf(agent)
  const warnings: SharedWarning[] = []
  const withFacts = <T extends object>(result: T): T => ({
    ...result,
    ...lostIn({ failed }),
    ...(warnings.length > 0 && { warnings }),
    ...(input.known !== facts.digest && { facts }),
  })
  try {
    const view = await needs.views.view(readTarget(job, input), job.along)
    const result = await step({ agent, deadline, job: { ...job, attempt: { ...attempt, failed }, warnings }, view })
    return withFacts(waitingFor(input, result))
  } catch (error) {
    if (error instanceof TryAgain) throw error
    if (error instanceof StaleWatermark) return withFacts({ kind: 'stale_watermark' } as const)
    if (error instanceof ArchiveUnavailable) {
      return withFacts(waitingFor(input, { kind: 'archive_unavailable', reason: error.message } as const))
    }
    // This is not a failure of the model. The events could not be read at the moment.
    const unread = failedAttempt(attempt.number, error, { retryable: true, worker: needs.worker })
    throw new TryAgain('AttemptFailed', unread.message, { afterMs: STORE_RETRY_MS, failed: unread })
  }
}

/** Has Temporal retry a step that waits, as long as the cause is the one that its session knows. */
function waitingFor<R extends object>({ untilServed, waitsFor }: AskModelInput, result: R): R {
  if (!untilServed || !isWait(result) || (waitsFor !== undefined && waitsFor !== result.kind)) return result
  throw result.kind === 'budget_exhausted' ? budgetAway(result.reason) : archiveAway(result.reason)
}

function isWait(result: object): result is NoAnswer & { kind: 'budget_exhausted' | 'archive_unavailable' } {
  return 'kind' in result && (result.kind === 'budget_exhausted' || result.kind === 'archive_unavailable')
}

/** The run's deadline has passed. */
export function deadlineExceeded({ reason }: CallDeadline): NoAnswer {
  return { kind: 'failed', code: 'deadline_exceeded', reason }
}

/** The earliest of the deadlines that bound a model call. */
export interface CallDeadline {
  /** Milliseconds until the deadline; infinity without one. */
  leftMs(): number
  /** Why the run fails at the deadline. */
  reason: string
}

/** Starts counting now. `agent` is this worker's build, even if the session knows another build's. */
function startDeadline({ limits, sessionLimits }: Agent, { runMs, sessionMs, leftMs }: AskModelInput): CallDeadline {
  const since = performance.now()
  let first = { leftMs: Number.POSITIVE_INFINITY, reason: '' }
  const consider = (left: number, reason: string): void => {
    if (left < first.leftMs) first = { leftMs: left, reason }
  }
  if (limits.deadlineMs !== undefined) consider(limits.deadlineMs - runMs, TOO_LATE.run(limits.deadlineMs))
  if (leftMs !== undefined) consider(leftMs, TOO_LATE.message)
  if (sessionLimits.deadlineMs !== undefined) consider(sessionLimits.deadlineMs - sessionMs, TOO_LATE.session(sessionLimits.deadlineMs))
  return { reason: first.reason, leftMs: () => Math.ceil(first.leftMs - (performance.now() - since)) }
}

export interface DeadlineSignal {
  signal: AbortSignal
  /** Call this when the model call has ended. */
  end(): void
}

/** Aborts with `stop`, and at the deadline. */
export function signalUntil(deadline: CallDeadline, stop: AbortSignal): DeadlineSignal {
  const leftMs = deadline.leftMs()
  if (!Number.isFinite(leftMs)) return { signal: stop, end: () => undefined }
  // Not AbortSignal.timeout: as a source of AbortSignal.any, it may be garbage-collected before it aborts.
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), Math.min(leftMs, LONGEST_MS))
  return { signal: AbortSignal.any([late.signal, stop]), end: () => clearTimeout(timer) }
}

/** Hooks that run once a turn is over, as part of the next model call if there is one. */
const AFTER_TURNS: readonly HookEvent[] = ['turnEnd', 'postToolUse', 'postToolUseFailure']

/** The agent as this process declares it. */
function factsOf({ limits, sessionLimits, checkpoint, recovery, plan, memory, hooks }: Agent): AgentFacts {
  const ofSessions = boundsOf(sessionLimits)
  const facts = {
    limits: { maxTurns: limits.maxTurns, ...boundsOf(limits) },
    ...(Object.keys(ofSessions).length > 0 && { sessionLimits: ofSessions }),
    checkpoint,
    recovery,
    ...(plan && { plan: true as const }),
    ...(memory.length > 0 && { memory }),
    ...(hooks.some(({ on }) => AFTER_TURNS.includes(on)) && { endHooks: true as const }),
  }
  return { digest: shortHash(JSON.stringify(facts)), ...facts }
}

/** In a fixed order, because the digest is computed over the text. */
function boundsOf({ deadlineMs, maxTotalTokens, maxUsd }: Agent['sessionLimits']): SessionLimits {
  return defined({ deadlineMs, maxTotalTokens, maxUsd })
}
