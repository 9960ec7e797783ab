// The error for an invalid option.
import { PawlError } from '../session/errors.ts'

/**
 * Thrown when pawl refuses an option, before anything has happened. The message names the option and says what is allowed. Codes:
 * `invalid_option`, and for lists `invalid_cursor`, for a cursor that does not belong to the list.
 */
export class InvalidOptionError extends PawlError {
  override readonly name = 'InvalidOptionError'

  /** `problem`: which option, and what is allowed. */
  constructor(problem: string, { code = 'invalid_option', cause }: { code?: 'invalid_option' | 'invalid_cursor'; cause?: unknown } = {}) {
    super(code, problem, { cause })
  }
}
