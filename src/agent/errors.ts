// Errors that declarations, tools and models throw. Each has a stable code, and says what to do next.
import { LONGEST_ASKED_MS } from '../session/backoff.ts'
import { type Duration, milliseconds } from '../session/duration.ts'
import { PawlError } from '../session/errors.ts'

/** An invalid declaration: thrown by `defineAgent`, `defineTool`, `defineWorker`. */
export class DeclarationError extends PawlError {
  override readonly name = 'DeclarationError'
}

/** Options of a `ToolError`. */
export interface ToolErrorOptions {
  /** The error's code, recorded with the attempt; 1 to 200 bytes. Default `tool_error`. */
  code?: string
  /** Whether pawl may retry the call. Default true; pawl never retries an `external` call on its own. */
  retryable?: boolean
  /**
   * How long the downstream service asks to wait before the next attempt; pawl waits at most the tool's `retry.maxRetryAfter`. Default, and
   * for a value that is not a duration (such as a missing header) or is longer than a day: the tool's `retry.baseDelay`, doubled each time.
   */
  retryAfter?: Duration | undefined
  /** `false`: the effect certainly did not happen. Default: it may have. */
  happened?: false
  /** The underlying error. */
  cause?: unknown
}

/** Thrown by a tool's `execute` to say how it failed. The model reads the message. */
export class ToolError extends PawlError {
  override readonly name = 'ToolError'
  /** Whether pawl may retry the call. */
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt: the option `retryAfter`; undefined if that was not a duration. */
  readonly retryAfterMs: number | undefined
  /** `false`: the effect certainly did not happen, so an `external` call fails instead of becoming unknown. */
  readonly happened: false | undefined

  /** `message`: what the model reads. */
  constructor(message: string, options: ToolErrorOptions = {}) {
    super(options.code ?? 'tool_error', message, { cause: options.cause })
    this.retryable = options.retryable ?? true
    this.retryAfterMs = milliseconds(options.retryAfter, { max: LONGEST_ASKED_MS })
    this.happened = options.happened
  }
}

/** Options of a `ModelError`. */
export interface ModelErrorOptions {
  /** Whether pawl may retry the call. */
  retryable: boolean
  /**
   * How long the provider asks to wait (`retry-after`); pawl waits at most the agent's `retry.maxRetryAfter`. Default, and for a value that
   * is not a duration or is longer than a day: the agent's `retry.baseDelay`, doubled each time.
   */
  retryAfter?: Duration | undefined
  /** Whether one of the agent's `fallback` models may answer the same request. Default: same as `retryable`. */
  fallback?: boolean | undefined
  /** HTTP status, if there was one. */
  status?: number | undefined
  /** `stream`: the provider had begun to answer. */
  phase?: 'stream' | undefined
  /** The underlying error. */
  cause?: unknown
}

/** Thrown by a `Model` to say whether and when pawl may retry a failed call. */
export class ModelError extends PawlError {
  override readonly name = 'ModelError'
  /** Whether pawl may retry the call. */
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt, as the provider asked (`retry-after`); undefined if it named no valid wait. */
  readonly retryAfterMs: number | undefined
  /** Whether another model may answer the same request. */
  readonly fallback: boolean
  /** HTTP status, if there was one. */
  readonly status: number | undefined
  /** `stream`: the provider had begun to answer. */
  readonly phase: 'stream' | undefined

  /** `code`: for programs to branch on, such as `rate_limit_error`. `message`: what happened, and what to do about it. */
  constructor(code: string, message: string, options: ModelErrorOptions) {
    super(code, message, { cause: options.cause })
    this.retryable = options.retryable
    this.retryAfterMs = milliseconds(options.retryAfter, { min: 0, max: LONGEST_ASKED_MS })
    this.fallback = options.fallback ?? options.retryable
    this.status = options.status
    this.phase = options.phase
  }
}

const fromHeader = new WeakSet<object>()

/** Marks the error's requested wait as coming from the provider's own header, not from the code of a Model. */
export function noteHeader(error: ModelError): ModelError {
  fromHeader.add(error)
  return error
}

/** Whether the error's requested wait comes from the provider's own header. */
export function isFromHeader(error: object): boolean {
  return fromHeader.has(error)
}

/** Whether it is a `ToolError`, even one from another copy of pawl in the same process. */
export function isToolError(error: unknown): error is ToolError {
  return isNamed(error, 'ToolError')
}

/** Whether it is a `ModelError`, even one from another copy of pawl in the same process. */
export function isModelError(error: unknown): error is ModelError {
  return isNamed(error, 'ModelError')
}

/** Code may throw any value, even one whose properties throw when read. */
function isNamed(error: unknown, name: string): boolean {
  try {
    return error instanceof Error && error.name === name && 'retryable' in error
  } catch {
    return false
  }
}
