// The update `recover`: takes a session out of `error`.
import { ApplicationFailure } from '@temporalio/workflow'
import { type RecoverRequest, refusalIn } from '../../session/protocol/protocol.ts'
import type { EventOf, SessionStatus } from '../../session/events.ts'
import type { RecoveryStrategy } from '../../session/agent-facts.ts'
import { chooseRecovery, DEFAULT_RECOVERY, problemWith, RECOVERIES, suggestedStrategy } from '../../session/recovery/recovery.ts'
import type { RestoredValues } from '../../session/recovery/restored.ts'
import { boundedText } from '../../session/protocol/texts.ts'
import { isObject } from '../../session/json.ts'
import { plainOf } from '../../session/protocol/requests.ts'
import { choiceIn, namesCalls, problemWithChoice } from '../../session/recovery/selective.ts'
import type { SessionState } from '../../session/state.ts'
import type { Journal } from '../journal.ts'
import { refuse, textOf } from '../session-parts.ts'
import { defined } from '../../session/defined.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

const STRATEGY_REQUIRED = `The strategy must be one of ${RECOVERIES.join(', ')}.`

/** Reads the update's argument. An empty object asks for the default strategy; an unreadable argument is refused. */
export function recoverRequestOf(raw: unknown): RecoverRequest {
  const request = plainOf(raw)
  return isObject(request) ? (request as RecoverRequest) : refuse('unknown_strategy', STRATEGY_REQUIRED)
}

/** The update's validator: refuses a request when there is nothing to recover. */
export function checkIsInError(state: SessionState): void {
  const { status, error } = state
  if (status === 'error' && error) return
  const instead = status === 'idle' && isRepeatable(state) ? 'Send a message, or regenerate the newest answer.' : INSTEAD[status]
  refuse('not_in_error', `The session is ${status} and not in error, so there is nothing to recover. ${instead}`)
}

/** Whether `regenerate` would accept the newest run: its answer is part of the session, and the outcomes of all its effects are known. */
function isRepeatable({ run, lastMessageId, unknown }: SessionState): boolean {
  return lastMessageId?.startsWith(`m_${run}_`) === true && Object.values(unknown).every((call) => call.run !== run)
}

/** What a person can do with a session that is not in error. */
const INSTEAD: Record<SessionStatus, string> = {
  running: 'To stop its run, interrupt it.',
  waiting: `Decide the calls that it waits for (\`${SUGGESTIONS.listPending()}\`), or interrupt its run.`,
  idle: 'Send a message.',
  closed: 'Send a message.',
  error: 'Send a message.',
}

/** Refuses a recovery that is not possible, and records the refusal. */
export function checkRecovery(journal: Journal, request: RecoverRequest): void {
  const { state } = journal
  checkIsInError(state)
  try {
    checkStrategy(state, request)
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error
    const strategy = boundedText(request.strategy, 'code')
    journal.append({
      type: 'recovery_refused',
      ...defined({ run: state.current?.run, strategy }),
      code: error.type ?? 'refused',
      message: refusalIn(error),
      ...textOf(request, 'by'),
      ...textOf(request, 'reason'),
    })
    throw error
  }
}

function checkStrategy(state: SessionState, request: RecoverRequest): void {
  const { error, current: run } = state
  if (!error) return
  const strategy = strategyOf(state, request)
  if (strategy === 'manual') {
    const raises = (error.raise ?? []).map((one) => `\`${SUGGESTIONS.raise({ session: state.sessionId, ...one })}\``)
    // Any other way to continue the run reaches the same limit again.
    const instead =
      raises.length > 0
        ? `raise the budget (${raises.join(' and ')}), and the run continues, or abandon it`
        : `name one of ${optionsOf(state)}`
    return refuse('choose_strategy', `No strategy is a good default after ${error.code}: ${instead}.`)
  }
  if (!isRecovery(strategy)) return refuse('unknown_strategy', STRATEGY_REQUIRED)
  if (strategy !== 'selective' && (namesCalls(request) || request.force)) {
    return refuse('invalid_calls', `\`keep\`, \`skip\`, \`redo\` and \`force\` belong to the strategy selective, not to ${strategy}.`)
  }
  if (strategy === 'abandon') return
  if (error.strategy === 'automatic') {
    refuse(
      'recovers_by_itself',
      `The session leaves this error (${error.code}) by itself once its cause is gone; to prevent that, abandon the run.`,
    )
  }
  if (!run) return refuse('no_run', 'The session has no failed run to recover: send a message.')
  const problem =
    problemWith(state, run, strategy) ??
    (strategy === 'selective' ? problemWithChoice(state, run, choiceIn(request), textOf(request, 'by').by) : undefined)
  if (problem) refuse(problem.code, `${problem.reason} Possible now: ${optionsOf(state)}.`)
}

function isRecovery(strategy: string): strategy is (typeof RECOVERIES)[number] {
  return (RECOVERIES as readonly string[]).includes(strategy)
}

/** The requested strategy, or the best one for the error. */
export function strategyOf(state: SessionState, request: RecoverRequest): string {
  const { error } = state
  const { strategy = namesCalls(request) ? 'selective' : undefined } = request
  if (strategy !== undefined || !error) return strategy ?? 'manual'
  if (error.strategy === 'automatic') return 'continue_run'
  return suggestedStrategy(state, error)
}

function optionsOf(state: SessionState): string {
  const { options } = chooseRecovery(state, state.error ?? { code: '' })
  return options.filter((option) => option !== 'manual').join(', ')
}

export function choosesCalls(state: SessionState, request: RecoverRequest): boolean {
  return strategyOf(state, request) === 'selective'
}

/** Runs the recovery that the agent's policy allows. */
export function recoverByPolicy(journal: Journal, strategy: RecoveryStrategy, restored?: RestoredValues): void {
  const { error, recovered, facts } = journal.state
  const { maxAttempts } = facts?.recovery ?? DEFAULT_RECOVERY
  const reason = `automatic recovery ${(recovered?.inARow ?? 0) + 1} of at most ${maxAttempts} after ${error?.code}`
  carryOut(journal, strategy, { automatic: true, reason, ...defined({ restored }) })
}

/** Runs a recovery that has been checked. */
export function recover(journal: Journal, request: RecoverRequest, restored?: RestoredValues): void {
  const strategy = strategyOf(journal.state, request) as RecoveryStrategy
  carryOut(journal, strategy, { ...textOf(request, 'by'), ...textOf(request, 'reason'), ...defined({ restored }) })
}

function carryOut(
  journal: Journal,
  strategy: RecoveryStrategy,
  about: Pick<EventOf<'recovery_started'>, 'automatic' | 'by' | 'reason' | 'restored'>,
): void {
  const { current } = journal.state
  const of = { strategy, ...defined({ run: current?.run }) }
  const toSeq = strategy === 'restart_from_last_effect' ? turnsRemovedAfter(journal) : undefined
  journal.append({ type: 'recovery_started', ...of, ...defined({ toSeq }), ...about })
  journal.append({ type: 'recovery_ended', ...of })
}

/**
 * The event after which `restart_from_last_effect` archives turns: the one that ended the newest effect's turn, or the newest event if
 * calls of that turn have no result yet.
 */
export function turnsRemovedAfter({ state, watermark }: Journal): number {
  return state.current?.lastEffect?.seq ?? watermark().seq
}
