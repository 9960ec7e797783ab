// Errors that declarations, tools and models throw: each with a stable code and what to do next.
import { type Duration, milliseconds } from '../session/duration.ts'
import { PawlError } from '../session/errors.ts'

/** A declaration that cannot work: thrown by `defineAgent`, `defineTool`, `defineWorker`. */
export class DeclarationError extends PawlError {
  override readonly name = 'DeclarationError'
}

/** Options of a `ToolError`. */
export interface ToolErrorOptions {
  /** Recorded with the attempt; 1 to 200 bytes. Default `tool_error`. */
  code?: string
  /** Whether the call may be tried again. Default true; an `external` call is never tried again by itself. */
  retryable?: boolean
  /**
   * When the downstream wants to be called again, at most `retry.maxRetryAfter` of the tool. Default, and for what is not a duration
   * (a header that was not there): the tool's `retry.baseDelay`, doubled each time.
   */
  retryAfter?: Duration | undefined
  /** `false`: the effect certainly did not happen. Default: it may have. */
  happened?: false
  /** The error behind it. */
  cause?: unknown
}

/** Thrown by a tool's `execute` to say more than "it failed". The message is what the model reads. */
export class ToolError extends PawlError {
  override readonly name = 'ToolError'
  /** Whether the call may be tried again. */
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt: the option `retryAfter`; undefined if that was not a duration. */
  readonly retryAfterMs: number | undefined
  /** `false` says that the effect surely did not happen: an `external` call then fails instead of becoming unknown. */
  readonly happened: false | undefined

  /** `message`: what the model reads. */
  constructor(message: string, options: ToolErrorOptions = {}) {
    super(options.code ?? 'tool_error', message, { cause: options.cause })
    this.retryable = options.retryable ?? true
    this.retryAfterMs = milliseconds(options.retryAfter)
    this.happened = options.happened
  }
}

/** Options of a `ModelError`. */
export interface ModelErrorOptions {
  /** Whether the call may be tried again. */
  retryable: boolean
  /**
   * How long the provider asks to wait (`retry-after`); at most `retry.maxRetryAfter` of the agent is waited. Default, and for what is not
   * a duration: the agent's `retry.baseDelay`, doubled each time.
   */
  retryAfter?: Duration | undefined
  /** Whether one of the agent's `fallback` models may answer the same request. Default: as `retryable`. */
  fallback?: boolean | undefined
  /** HTTP status, where there was one. */
  status?: number | undefined
  /** `stream`: the provider had begun to answer. */
  phase?: 'stream' | undefined
  /** The error behind it. */
  cause?: unknown
}

/** Thrown by a `Model` to say whether a failed call may be tried again, and when. */
export class ModelError extends PawlError {
  override readonly name = 'ModelError'
  /** Whether the call may be tried again. */
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt, as the provider asked (`retry-after`); undefined if it did not ask, or for what is not a wait. */
  readonly retryAfterMs: number | undefined
  /** Whether another model may answer the same request. */
  readonly fallback: boolean
  /** HTTP status, where there was one. */
  readonly status: number | undefined
  /** `stream`: the provider had begun to answer. */
  readonly phase: 'stream' | undefined

  /** `code`: what programs branch on, such as `rate_limit_error`. `message`: what happened, and what to do about it. */
  constructor(code: string, message: string, options: ModelErrorOptions) {
    super(code, message, { cause: options.cause })
    this.retryable = options.retryable
    this.retryAfterMs = milliseconds(options.retryAfter, { least: 0, most: Number.MAX_VALUE })
    this.fallback = options.fallback ?? options.retryable
    this.status = options.status
    this.phase = options.phase
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
