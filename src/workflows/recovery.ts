// The update `recover`: takes a session out of `error`.
import type { RecoverRequest } from '../session/protocol.ts'
import { chooseRecovery, problemWith, RECOVERIES } from '../session/recovery.ts'
import { isObject, plainOf } from '../session/requests.ts'
import type { SessionState } from '../session/state.ts'
import type { Journal } from './journal.ts'
import { refuse, textOf } from './open-session.ts'
import { defined } from '../session/defined.ts'

const SAY_STRATEGY = `The strategy must be one of ${RECOVERIES.join(', ')}.`

/** Reads the update's argument. An empty object asks for the default strategy; an unreadable argument is refused. */
export function recoverRequestOf(raw: unknown): RecoverRequest {
  const request = plainOf(raw)
  return isObject(request) ? (request as RecoverRequest) : refuse('unknown_strategy', SAY_STRATEGY)
}

/** The update's validator: refuses a recovery that is not possible. */
export function checkRecovery(state: SessionState | undefined, request: RecoverRequest): void {
  if (state?.status !== 'error' || !state.error)
    return refuse('not_in_error', `The session is ${state?.status ?? 'loading'}, not in error: there is nothing to recover.`)
  const { error, current: run } = state
  const strategy = strategyOf(state, request)
  if (strategy === 'manual') {
    return refuse('choose_strategy', `No strategy is a good default after ${error.code}: name one of ${optionsOf(state)}.`)
  }
  if (!isRecovery(strategy)) return refuse('unknown_strategy', SAY_STRATEGY)
  if (strategy === 'abandon') return
  if (error.strategy === 'automatic') {
    refuse(
      'recovers_by_itself',
      `The session leaves this error (${error.code}) by itself once its cause is gone; to prevent that, abandon the run.`,
    )
  }
  if (!run) return refuse('no_run', 'The session has no failed run to recover: send a message.')
  const problem = problemWith(state, run, strategy)
  if (problem) refuse(problem.code, `${problem.reason} Possible now: ${optionsOf(state)}.`)
}

function isRecovery(strategy: string): strategy is (typeof RECOVERIES)[number] {
  return (RECOVERIES as readonly string[]).includes(strategy)
}

/** The requested strategy, or the best one for the error. */
function strategyOf(state: SessionState, { strategy }: RecoverRequest): string {
  const { error } = state
  if (strategy !== undefined || !error) return strategy ?? 'manual'
  if (error.strategy === 'automatic') return 'continue_run'
  // What was unknown then may have been resolved since.
  return error.strategy === 'manual' ? chooseRecovery(state, error).strategy : error.strategy
}

function optionsOf(state: SessionState): string {
  const { options } = chooseRecovery(state, state.error ?? { code: '' })
  return options.filter((option) => option !== 'manual').join(', ')
}

/** Carries out a checked recovery. */
export function recover(journal: Journal, request: RecoverRequest): void {
  const { current } = journal.state
  const strategy = strategyOf(journal.state, request) as NonNullable<RecoverRequest['strategy']>
  const about = { strategy, ...defined({ run: current?.run }) }
  // The turn of the newest effect may be the newest one, with calls that have no result.
  const toSeq = strategy === 'restart_from_last_effect' ? (current?.lastEffect?.seq ?? journal.watermark().seq) : undefined
  journal.append({ type: 'recovery_started', ...about, ...defined({ toSeq }), ...textOf(request, 'by'), ...textOf(request, 'reason') })
  journal.append({ type: 'recovery_ended', ...about })
}
