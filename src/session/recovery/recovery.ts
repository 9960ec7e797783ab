// How a session in `error` can be recovered: the default strategy and the options, depending on what failed and what the run has done.
import type { AutomaticStrategy, RecoveryPolicy, RecoveryStrategy } from '../agent-facts.ts'
import type { ErrorProgress, EventOf } from '../events.ts'
import { doubled } from '../backoff.ts'
import { shortHash } from '../digest.ts'
import { hasEnded } from '../past/call-status.ts'
import { cutOf, NO_RUN } from '../past/cut.ts'
import type { CallState, RunState, SessionError, SessionState } from '../state.ts'
import { cutText } from '../protocol/texts.ts'
import type { BudgetRaise } from '../spending/spend.ts'

type ErrorClass =
  /** The cause is outside of pawl and temporary, so another attempt may succeed. */
  | 'transient'
  /** A limit of the agent was reached. */
  | 'limit'
  /** The conversation does not fit into the model's context. */
  | 'overflow'
  /** A person must fix something first. */
  | 'fault'

const TRANSIENT: ReadonlySet<string> = new Set(['worker_died', 'stale_watermark'])
const LIMITS: ReadonlySet<string> = new Set(['max_turns', 'deadline_exceeded', 'invalid_output', 'budget_exhausted', 'no_progress'])
const OVERFLOWS: ReadonlySet<string> = new Set(['context_overflow', 'model_context_window_exceeded', 'request_too_large'])

/** The class of an error. `transient`: the failure was retryable, and its retries are exhausted. */
function errorClassOf({ code, transient }: { code: string; transient?: boolean | undefined }): ErrorClass {
  if (LIMITS.has(code)) return 'limit'
  if (OVERFLOWS.has(code)) return 'overflow'
  return transient || TRANSIENT.has(code) ? 'transient' : 'fault'
}

/** The possible strategies, and the default one. */
export interface RecoveryChoice {
  strategy: RecoveryStrategy
  options: RecoveryStrategy[]
}

/** Chooses the strategies for a failed run. `manual` means that no strategy is a good default. */
export function chooseRecovery(
  state: SessionState,
  error: { code: string; transient?: boolean | undefined; raise?: BudgetRaise[] | undefined },
): RecoveryChoice {
  const run = state.current
  if (!run) return { strategy: 'abandon', options: ['abandon', 'manual'] }
  const allowed = (strategy: RecoveryStrategy): boolean => problemWith(state, run, strategy) === undefined
  const options = [...RECOVERIES.filter(allowed), 'manual' as const]
  // The right strategy depends on how these calls turned out.
  if (unknownCallsOf(state, run).length > 0) return { strategy: 'manual', options }
  // Without a higher limit, every strategy would reach the same limit again. `raise` continues the run automatically.
  const wanted = error.raise ? [] : preferred(run, errorClassOf(error))
  return { strategy: wanted.find(allowed) ?? 'manual', options }
}

/**
 * The strategy to suggest now. If one was recorded with the error, that one applies, because only the failure shows whether it was
 * transient. If none was recorded, a person may have resolved calls since.
 */
export function suggestedStrategy(
  state: SessionState,
  error: { code: string; strategy?: SessionError['strategy']; raise?: BudgetRaise[] | undefined },
): RecoveryStrategy {
  const { strategy } = error
  return strategy === undefined || strategy === 'automatic' || strategy === 'manual' ? chooseRecovery(state, error).strategy : strategy
}

/** The strategies that need no choice of calls, the least invasive first. */
export const AUTOMATIC: readonly AutomaticStrategy[] = ['continue_run', 'restart_from_last_effect', 'restart_run', 'abandon']

/** The strategies that a recovery carries out, the least invasive first. */
export const RECOVERIES: readonly Exclude<RecoveryStrategy, 'manual'>[] = [
  'continue_run',
  'selective',
  'restart_from_last_effect',
  'restart_run',
  'abandon',
]

/** The policy of an agent that declares none, and of a session that knows nothing about its agent yet. */
export const DEFAULT_RECOVERY: RecoveryPolicy = {
  automatic: ['continue_run'],
  maxAttempts: 10,
  baseDelayMs: 5_000,
  maxDelayMs: 600_000,
  perHour: 20,
}

/** The strategies that suit the failure, the best one first. */
function preferred({ lastEffect }: RunState, failure: ErrorClass): RecoveryStrategy[] {
  switch (failure) {
    case 'transient':
    case 'limit':
      return ['continue_run']
    case 'overflow':
      return ['abandon']
    case 'fault':
      return lastEffect ? ['restart_from_last_effect', 'manual'] : ['restart_run', 'abandon']
  }
}

/** How many times of automatic recoveries a state remembers: the most that a policy may allow within an hour. */
export const RECOVERIES_KEPT = 100

/** Whether the session leaves the error without a person. */
export function leavesByItself({ strategy, nextAttemptAt }: Pick<SessionError, 'strategy' | 'nextAttemptAt'>): boolean {
  return strategy === 'automatic' || nextAttemptAt !== undefined
}

const HOUR_MS = 3_600_000

/**
 * When pawl recovers the run automatically, in milliseconds since 1970; undefined if a person must recover it. `now` affects only the time.
 */
export function nextAttemptAt(
  state: SessionState,
  error: { code: string; transient?: boolean | undefined },
  strategy: RecoveryStrategy,
  now: number,
): number | undefined {
  const { automatic, maxAttempts, baseDelayMs, maxDelayMs, perHour } = state.facts?.recovery ?? DEFAULT_RECOVERY
  const { inARow = 0, times = [] } = state.recovered ?? {}
  // Another attempt would only reach the same limit again.
  if (errorClassOf(error) === 'limit' || !automatic.some((one) => one === strategy) || inARow >= maxAttempts) return undefined
  const delayMs = Math.min(maxDelayMs, doubled(baseDelayMs, inARow)) * spreadOf(state)
  const full = times.at(-perHour)
  return Math.ceil(Math.max(now + delayMs, full === undefined ? 0 : full + HOUR_MS))
}

/** From 0.75 to 1.25, so that sessions stopped by the same outage do not all resume at once. A replay must compute the same factor. */
function spreadOf({ sessionId, seq }: SessionState): number {
  return 0.75 + Number.parseInt(shortHash(`${sessionId} ${seq}`).slice(0, 8), 16) / 2 ** 33
}

/** Why a strategy is not possible now; undefined if it is. */
export function problemWith(state: SessionState, run: RunState, strategy: RecoveryStrategy): { code: string; reason: string } | undefined {
  if (strategy === 'abandon' || strategy === 'manual') return undefined
  if (strategy === 'selective') return problemWithTurn(state, run)
  const unknown = unknownCallsOf(state, run)
  if (unknown.length > 0) {
    return {
      code: 'outcome_unknown',
      reason: `It is unknown whether ${unknown.join(', ')} took effect, so ${strategy} might repeat it. Resolve the call first (resolve), or abandon the run.`,
    }
  }
  if (strategy === 'restart_run' && run.tookMore) {
    return {
      code: 'too_many_messages',
      reason: `Run ${run.run} took more messages than can be put back for a restart. Continue it, or abandon it and send a message.`,
    }
  }
  if (strategy === 'restart_from_last_effect' && !run.lastEffect) {
    return { code: 'no_effect', reason: `Run ${run.run} has no completed effect to go back to. Restart it instead (restart_run).` }
  }
  return undefined
}

/** What prevents a recovery of the newest answer's turn, whichever of its calls are chosen. */
function problemWithTurn(state: SessionState, run: RunState): { code: string; reason: string } | undefined {
  const ofTurn = new Set([...run.calls, ...(run.leftOut ?? [])].map(({ callId }) => callId))
  if (ofTurn.size === 0) return { code: 'no_calls', reason: `The newest turn of run ${run.run} has no calls to choose from.` }
  const earlier = unknownCallsOf(state, run).filter((callId) => !ofTurn.has(callId))
  if (earlier.length === 0) return undefined
  return {
    code: 'outcome_unknown',
    reason: `It is unknown whether ${earlier.join(', ')} of an earlier turn took effect. Resolve the call first (resolve), or abandon the run.`,
  }
}

/** Whether a recovery takes turns of the failed run out of the transcript, and with them the calls of the newest one. */
export function removesTurns(event: EventOf<'recovery_started'>): boolean {
  const cut = cutOf(event, NO_RUN)
  return cut !== undefined && !cut.outcomes
}

/** The run's calls that may or may not have taken effect. */
export function unknownCallsOf({ unknown }: SessionState, run: RunState): string[] {
  return Object.entries(unknown).flatMap(([callId, call]) => (call.run === run.run ? [callId] : []))
}

/** What the run had done when it failed. */
export function progressOf(state: SessionState, run: RunState): ErrorProgress {
  const { effects, moreEffects, calls } = run
  const completed = effects.slice(-SHOWN.completed).map((effect) => ({ ...effect }))
  const moreCompleted = moreEffects + effects.length - completed.length
  return {
    completed,
    failed: namesOf(calls.filter(({ status }) => status === 'failed')),
    pending: namesOf(calls.filter((call) => !hasEnded(call))),
    unknown: unknownCallsOf(state, run),
    ...(moreCompleted > 0 && { moreCompleted }),
  }
}

/** The progress is part of the state, which is bounded. */
const SHOWN = { completed: 5, calls: 10, toolBytes: 42 }

function namesOf(calls: readonly CallState[]): ErrorProgress['failed'] {
  return calls.slice(0, SHOWN.calls).map(({ callId, resolution: { tool } }) => ({ callId, tool: cutText(tool, SHOWN.toolBytes) }))
}
