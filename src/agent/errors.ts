// Errors that declarations, tools and models throw: each with a stable code and what to do next.
import { waitMs } from '../session/backoff.ts'
import { type Duration, milliseconds } from '../session/duration.ts'
import { PawlError } from '../session/errors.ts'

/** A declaration that cannot work: thrown by `defineAgent`, `defineTool`, `defineWorker`. */
export class DeclarationError extends PawlError {
  override readonly name = 'DeclarationError'
}

/** Thrown by a tool's `execute` to say more than "it failed". The message is what the model reads. */
export class ToolError extends PawlError {
  override readonly name = 'ToolError'
  /** May the call be tried again? Default true (an `external` call is never tried again by itself). */
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt: the option `retryAfter`; undefined if that was no duration. */
  readonly retryAfterMs: number | undefined
  /** `false` says that the effect surely did not happen: an `external` call then fails instead of becoming unknown. */
  readonly happened: false | undefined

  /**
   * `retryAfter`: when the downstream wants to be asked again, in milliseconds or as text like `'2s'`; by default, and for what is no
   * duration (a header that was not there), the tool's `retry.baseDelayMs`, doubled each time.
   */
  constructor(
    message: string,
    options: { code?: string; retryable?: boolean; retryAfter?: Duration; happened?: false; cause?: unknown } = {},
  ) {
    super(options.code ?? 'tool_error', message, { cause: options.cause })
    this.retryable = options.retryable ?? true
    this.retryAfterMs = milliseconds(options.retryAfter)
    this.happened = options.happened
  }
}

/** Thrown by a `Model` to say whether a failed call may be tried again, and when. */
export class ModelError extends PawlError {
  override readonly name = 'ModelError'
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt, as the provider asked (`retry-after`); undefined if it asked for what is not a wait. */
  readonly retryAfterMs: number | undefined
  /** HTTP status, where there was one. */
  readonly status: number | undefined

  constructor(
    code: string,
    message: string,
    options: { retryable: boolean; retryAfterMs?: number | undefined; status?: number | undefined; cause?: unknown },
  ) {
    super(code, message, { cause: options.cause })
    this.retryable = options.retryable
    this.retryAfterMs = waitMs(options.retryAfterMs)
    this.status = options.status
  }
}

/** Whether it is a `ToolError`, also one of another copy of pawl in the same process. */
export function isToolError(error: unknown): error is ToolError {
  return isNamed(error, 'ToolError')
}

/** Whether it is a `ModelError`, also one of another copy of pawl in the same process. */
export function isModelError(error: unknown): error is ModelError {
  return isNamed(error, 'ModelError')
}

/** Anything may be thrown, also what throws when it is looked at. */
function isNamed(error: unknown, name: string): boolean {
  try {
    return error instanceof Error && error.name === name && 'retryable' in error
  } catch {
    return false
  }
}
