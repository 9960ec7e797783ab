// Errors that a backend may have to catch.
import type { RecoveryStrategy } from '../session/agent-facts.ts'
import { PawlError } from '../session/errors.ts'
import { numberText } from '../session/number-text.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

/** A message that cannot be sent; nothing was recorded. Codes: those of `message_rejected`, `invalid_session_id`, `no_agent`. */
export class InvalidMessageError extends PawlError {
  override readonly name = 'InvalidMessageError'
}

/**
 * The session refused the message, or its run can no longer be read. Codes: `agent_mismatch`, `undecodable`, …; `pruned`, `erased`,
 * `started_over`.
 */
export class MessageRejectedError extends PawlError {
  override readonly name = 'MessageRejectedError'
}

/** The run was stopped. Code `run_interrupted`. */
export class RunInterruptedError extends PawlError {
  override readonly name = 'RunInterruptedError'
  /** The run that was stopped. */
  readonly run: number
  /** The reason that was given for stopping it. */
  readonly reason: string | undefined

  constructor(run: number, reason: string | undefined) {
    super('run_interrupted', `Run ${run} was interrupted${reason === undefined ? '' : `: ${reason}`}. Send a message to continue.`)
    this.run = run
    this.reason = reason
  }
}

/**
 * The run failed, and the session is (or was) in `error`. `code` names the reason: `max_turns`, `deadline_exceeded`, a model's error
 * code, …
 */
export class RunFailedError extends PawlError {
  override readonly name = 'RunFailedError'
  /** The run that failed; undefined if the session failed before a run. */
  readonly run: number | undefined
  /** Why it failed. */
  readonly reason: string
  /** The recovery strategy that pawl suggests. */
  readonly strategy: RecoveryStrategy | 'automatic'

  constructor(failed: { run?: number; code: string; reason: string; strategy: RecoveryStrategy | 'automatic' }) {
    super(failed.code, SAYS_WHAT_TO_DO.has(failed.code) ? failed.reason : `${failed.reason} ${nextOf(failed.strategy)}`)
    this.run = failed.run
    this.reason = failed.reason
    this.strategy = failed.strategy
  }
}

/** Codes of failures that the next run would have, too: their reasons say what to do. */
const SAYS_WHAT_TO_DO: ReadonlySet<string> = new Set(['invalid_context', 'budget_exhausted', 'unpriced_model'])

const nextOf = (strategy: RecoveryStrategy | 'automatic'): string => `Send a message to start a new run, or ${recoveryBy(strategy)}.`

/** `manual` is a suggestion to choose, which `recover` does not accept as a choice. */
function recoveryBy(strategy: RecoveryStrategy | 'automatic'): string {
  return strategy === 'manual' || strategy === 'automatic'
    ? 'recover the session with one of the strategies in (await session.state()).error.options'
    : `call session.recover({ strategy: '${strategy}' })`
}

/** The run had not settled in time; it continues. The message says where the run was. Code `result_timeout`. */
export class ResultTimeoutError extends PawlError {
  override readonly name = 'ResultTimeoutError'

  constructor(timeoutMs: number, progress: string) {
    super(
      'result_timeout',
      `The run has not settled within ${numberText(timeoutMs)} ms. ${progress} Wait for it again with session.run(messageId).result().`,
    )
  }
}

/** There is no such session. Code `session_not_found`. */
export class SessionNotFoundError extends PawlError {
  override readonly name = 'SessionNotFoundError'
  /** The id that was searched for. */
  readonly sessionId: string
  /** When the session was erased, in milliseconds since 1970; undefined if it was not, or if that is not known. */
  readonly erasedAt: number | undefined

  /** `where`: the only place that was searched, if the session may exist elsewhere. */
  constructor(sessionId: string, { where, erasedAt, cause }: { where?: 'store'; erasedAt?: number; cause?: unknown } = {}) {
    const text =
      erasedAt !== undefined
        ? `Session "${sessionId}" was erased at ${new Date(erasedAt).toISOString()}, and nothing of it is left. A message to it starts it again.`
        : where === 'store'
          ? `The side store has no session "${sessionId}". Check its id. A session that was just started is stored once a worker serves its agent; \`${SUGGESTIONS.show(sessionId)}\` says what it waits for.`
          : `There is no session "${sessionId}". Check its id, or send it a message to start it.`
    super('session_not_found', text, { cause })
    this.sessionId = sessionId
    this.erasedAt = erasedAt
  }
}

/** Details of a session that does not answer. */
export interface Unavailable {
  /** What is wrong with it: the rest of a sentence whose subject is the session. */
  what: string
  /** What to do about it, in a sentence. */
  advice?: string
  /** What it waits for, if that is known. */
  waitsFor?: string
  /** Whether a worker is opening it, or is about to. Default false. */
  isOpening?: boolean
  /** The error behind it. */
  cause?: unknown
}

/**
 * The session does not answer now: no worker serves it, its past cannot be read from Postgres, or it did not carry out a request in time.
 * The message says which; `waitsFor` says what it waits for, if that is known. Code `session_unavailable`.
 */
export class SessionUnavailableError extends PawlError {
  override readonly name = 'SessionUnavailableError'
  /** What the session waits for, if that is known. */
  readonly waitsFor: string | undefined
  /** Whether a worker is opening the session, or is about to, as in the moments after its first message: ask again. */
  readonly isOpening: boolean

  constructor(sessionId: string, unavailable: Unavailable) {
    const { what, advice = 'Start a worker on its task queue and ask again.', waitsFor, isOpening = false, cause } = unavailable
    super('session_unavailable', `Session "${sessionId}" ${what}. ${advice}`, { cause })
    this.waitsFor = waitsFor
    this.isOpening = isOpening
  }
}

/**
 * A request to a session cannot be carried out; nothing has changed. Codes: of `recover` `not_in_error`, `recovers_by_itself`,
 * `no_effect`, `too_many_messages`, `choose_strategy`, `unknown_strategy`, `no_run`, and of its strategy `selective` `no_calls`,
 * `choose_calls`, `invalid_calls`, `no_result`, `would_repeat_effect`; of `rollback`, `fork` and `regenerate` `checkpoint_not_found`,
 * `message_not_found`, `run_not_found`, `target_archived`, `invalid_target`, `invalid_keys`, `session_exists`, `workflow_reset`; of
 * these and `recover` `session_moved`; of `approve`, `deny`, `answer` and `resolve` `not_waiting`, `digest_mismatch`, `approval_expired`, `invalid_arguments`,
 * `invalid_idempotency_key`, `unknown_tool`, `denied_by_hook`, `changed_by_hook`, `invalid_answer`, `not_unknown`, `call_has_ended`,
 * `invalid_resolution`; of `raise` `invalid_raise`, `limit_lower`, `no_limit`, `no_current_run`; of `checkpoint` `invalid_reason`; of
 * `close` `not_open`; of reads of a pruned session `events_gone`; of `erase` `session_open`; of several of them `invalid_request`,
 * `request_id_reused`, `call_not_found`, `already_completed`, `outcome_unknown`, `agent_not_served`, `events_unavailable`, `stale_watermark`; of all while the
 * session cannot open `archive_unavailable`, `execution_unreadable`, `session_not_loaded`.
 */
export class RequestRefusedError extends PawlError {
  override readonly name = 'RequestRefusedError'
}
