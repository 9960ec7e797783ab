// What the command line says when something goes wrong.
import { inspect } from 'node:util'
import { PawlError } from '../session/errors.ts'

/** A command that cannot be carried out as it was given. */
export class CliError extends PawlError {
  override readonly name = 'CliError'
}

/** The text for a person: `code: message`, the cause where it says more; the stack only with `PAWL_DEBUG`. */
export function describeError(error: unknown): string {
  if (process.env.PAWL_DEBUG) return inspect(error, { depth: 6 })
  if (!(error instanceof PawlError)) {
    return `internal_error: ${messageOf(error)}\n  Run it again with PAWL_DEBUG=1 to see where it came from.`
  }
  const cause = error.cause === undefined ? '' : messageOf(error.cause)
  const more = cause !== '' && !error.message.includes(cause) ? `\n  caused by: ${cause}` : ''
  return `${error.code}: ${error.message}${more}`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
