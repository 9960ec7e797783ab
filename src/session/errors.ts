// The base class of every error that pawl throws: a stable code, what went wrong, what to do next.

/** An error of pawl. `code` is stable across releases; `message` ends with what to do next. */
export class PawlError extends Error {
  override readonly name: string = 'PawlError'
  /** Stable, in snake_case. Programs branch on it. */
  readonly code: string

  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}
