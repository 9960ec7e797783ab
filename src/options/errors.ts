// What is wrong with an option.
import { PawlError } from '../session/errors.ts'

/**
 * An option that pawl refuses, before anything has happened; the message names it and says what is allowed. Codes: `invalid_option`, and
 * for a list `invalid_cursor`, a cursor that is not one of that list.
 */
export class InvalidOption extends PawlError {
  override readonly name = 'InvalidOption'

  /** `problem`: which option, and what is allowed. */
  constructor(problem: string, { code = 'invalid_option', cause }: { code?: 'invalid_option' | 'invalid_cursor'; cause?: unknown } = {}) {
    super(code, problem, { cause })
  }
}
