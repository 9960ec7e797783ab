// What a backend may have to catch.
import type { RecoveryStrategy } from '../session/events.ts'
import { PawlError } from '../session/errors.ts'

/** A message that cannot be sent; nothing was recorded. Codes: those of `message_rejected`, `invalid_session_id`, `no_agent`. */
export class InvalidMessage extends PawlError {
  override readonly name = 'InvalidMessage'
}

/** The session refused the message. Codes: `agent_mismatch`, `undecodable`, … */
export class MessageRejected extends PawlError {
  override readonly name = 'MessageRejected'
}

/** The run was stopped. Code `run_interrupted`. */
export class RunInterrupted extends PawlError {
  override readonly name = 'RunInterrupted'
  readonly run: number
  readonly reason: string | undefined

  constructor(run: number, reason: string | undefined) {
    super('run_interrupted', `Run ${run} was interrupted${reason === undefined ? '' : `: ${reason}`}. Send a message to go on.`)
    this.run = run
    this.reason = reason
  }
}

/** The run failed, and the session is (or was) in `error`. `code` is the reason's: `max_turns`, `deadline_exceeded`, a model's error code, … */
export class RunFailed extends PawlError {
  override readonly name = 'RunFailed'
  readonly run: number | undefined
  readonly reason: string
  /** How pawl suggests to go on. */
  readonly strategy: RecoveryStrategy | 'automatic'

  constructor(failed: { run?: number; code: string; reason: string; strategy: RecoveryStrategy | 'automatic' }) {
    super(failed.code, `${failed.reason} Send a message to start a new run, or session.recover({ strategy: '${failed.strategy}' }).`)
    this.run = failed.run
    this.reason = failed.reason
    this.strategy = failed.strategy
  }
}

/** The run had not settled in time; it goes on. Code `result_timeout`. */
export class ResultTimeout extends PawlError {
  override readonly name = 'ResultTimeout'

  constructor(timeoutMs: number) {
    super('result_timeout', `The run has not settled within ${timeoutMs} ms. It goes on: ask again with session.run(messageId).result().`)
  }
}

/** There is no such session. Code `session_not_found`. */
export class SessionNotFound extends PawlError {
  override readonly name = 'SessionNotFound'

  constructor(sessionId: string, options?: { cause?: unknown }) {
    super('session_not_found', `There is no session "${sessionId}": look at its id again, or send it a message to start it.`, options)
  }
}

/**
 * The session cannot be looked at now: no worker answers, and the store has nothing of it yet. Or it was asked something, and no worker
 * has taken that in. Code `session_unavailable`.
 */
export class SessionUnavailable extends PawlError {
  override readonly name = 'SessionUnavailable'

  constructor(
    sessionId: string,
    { cause, what = 'cannot be looked at now; what was sent to it is kept' }: { cause?: unknown; what?: string } = {},
  ) {
    super('session_unavailable', `Session "${sessionId}" ${what}. Start a worker on its task queue and ask again.`, { cause })
  }
}

/** The session cannot be recovered so. Codes: `not_in_error`, `effects_completed`, `recovers_by_itself`, `no_run`, `unknown_strategy`. */
export class RecoveryRefused extends PawlError {
  override readonly name = 'RecoveryRefused'
}

/** An option of a list, or a cursor, that cannot be meant. Codes: `invalid_option`, `invalid_cursor`. */
export class InvalidOption extends PawlError {
  override readonly name = 'InvalidOption'
}

/**
 * What was asked of a session cannot be done; nothing has changed. Codes: of `rollback` and `fork` `checkpoint_not_found`,
 * `message_not_found`, `run_not_found`, `target_archived`, `invalid_target`, `session_exists`; of `approve`, `deny`, `answer` and `resolve`
 * `call_not_found`, `not_waiting`, `digest_mismatch`, `approval_expired`, `invalid_arguments`, `already_completed`, `invalid_answer`,
 * `not_unknown`, `call_has_ended`, `invalid_resolution`, `agent_not_served`; of all `invalid_request`, `stale_watermark`.
 */
export class RequestRefused extends PawlError {
  override readonly name = 'RequestRefused'
}
