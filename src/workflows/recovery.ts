// The update `recover`: takes a session out of `error`.
import { ApplicationFailure } from '@temporalio/workflow'
import type { RecoverRequest } from '../session/protocol.ts'
import { hasEffects } from '../session/fold-calls.ts'
import type { SessionState } from '../session/state.ts'
import type { Journal } from './journal.ts'
import { textOf } from './open-session.ts'
import { defined } from '../session/defined.ts'

/** The update's validator: refuses a recovery that is not possible. */
export function checkRecovery(state: SessionState | undefined, request: RecoverRequest): void {
  const refuse = (code: string, message: string): never => {
    throw ApplicationFailure.nonRetryable(message, code)
  }
  if (state?.status !== 'error')
    return refuse('not_in_error', `The session is ${state?.status ?? 'loading'}, not in error: there is nothing to recover.`)
  if (request.strategy === 'abandon') return
  if (request.strategy !== 'restart_run') refuse('unknown_strategy', 'The strategy must be restart_run or abandon.')
  if (state.error?.strategy === 'automatic') {
    refuse(
      'recovers_by_itself',
      `The session leaves this error (${state.error.code}) by itself once its cause is gone; to prevent that, abandon the run.`,
    )
  }
  const run = state.current
  if (!run) refuse('no_run', 'The session has no failed run to restart: send a message.')
  if (run && hasEffects(run)) {
    refuse(
      'effects_completed',
      `Run ${run.run} has effects that completed or may have (${run.effects.join(', ')}${run.moreEffects > 0 ? ` and ${run.moreEffects} more` : ''}); restarting it would repeat them. Abandon the run and send a message.`,
    )
  }
  if (run?.tookMore) {
    refuse(
      'too_many_messages',
      `Run ${run.run} took more messages than can be put back for a restart. Abandon the run and send a message: the next run sees the conversation.`,
    )
  }
}

/** Carries out a checked recovery. A new run takes the messages of a restarted run again. */
export function recover(journal: Journal, request: RecoverRequest): void {
  const run = journal.state.current?.run
  const about = { strategy: request.strategy, ...defined({ run }) }
  journal.append({ type: 'recovery_started', ...about, ...textOf(request, 'by') })
  journal.append({ type: 'recovery_ended', ...about })
}
