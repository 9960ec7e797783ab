// The update `recover`: takes a session out of `error`.
import { ApplicationFailure } from '@temporalio/workflow'
import type { RecoverRequest } from '../session/protocol.ts'
import { chooseRecovery, problemWith } from '../session/recovery.ts'
import { isObject, plainOf } from '../session/requests.ts'
import type { SessionState } from '../session/state.ts'
import type { Journal } from './journal.ts'
import { textOf } from './open-session.ts'
import { defined } from '../session/defined.ts'

const STRATEGIES: readonly RecoverRequest['strategy'][] = ['continue_run', 'restart_run', 'restart_from_last_effect', 'abandon']

/** The request that an argument makes: an object, if an empty one, so that an argument nobody can read recovers nothing. */
export function recoverRequestOf(raw: unknown): RecoverRequest {
  const request = plainOf(raw)
  return isObject(request) ? (request as RecoverRequest) : { strategy: 'unreadable' as never }
}

/** The update's validator: refuses a recovery that is not possible. */
export function checkRecovery(state: SessionState | undefined, request: RecoverRequest): void {
  const refuse = (code: string, message: string): never => {
    throw ApplicationFailure.nonRetryable(message, code)
  }
  if (state?.status !== 'error' || !state.error)
    return refuse('not_in_error', `The session is ${state?.status ?? 'loading'}, not in error: there is nothing to recover.`)
  const { error, current: run } = state
  const strategy = strategyOf(state, request)
  if (strategy === 'manual') {
    return refuse('choose_strategy', `No strategy is a good default after ${error.code}: name one of ${optionsOf(state)}.`)
  }
  if (!STRATEGIES.includes(strategy as RecoverRequest['strategy'])) {
    refuse('unknown_strategy', `The strategy must be one of ${STRATEGIES.join(', ')}.`)
  }
  if (strategy === 'abandon') return
  if (error.strategy === 'automatic') {
    refuse(
      'recovers_by_itself',
      `The session leaves this error (${error.code}) by itself once its cause is gone; to prevent that, abandon the run.`,
    )
  }
  if (!run) return refuse('no_run', 'The session has no failed run to recover: send a message.')
  const problem = problemWith(state, run, strategy as NonNullable<RecoverRequest['strategy']>)
  if (problem) refuse(problem.code, `${problem.reason} Possible now: ${optionsOf(state)}.`)
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
