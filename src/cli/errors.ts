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
  // Told by its name: whoever asks only Postgres need not load the Temporal client for it.
  if (error instanceof Error && error.name === 'NamespaceNotFoundError') {
    return `namespace_not_found: ${error.message}. Set TEMPORAL_NAMESPACE to one that this Temporal has.`
  }
  if (!(error instanceof PawlError)) {
    return `internal_error: ${messageOf(error)}\n  Run it again with PAWL_DEBUG=1 to see where it came from.`
  }
  const cause = error.cause === undefined ? '' : firstLineOf(messageOf(rootOf(error.cause)))
  const more = cause !== '' && !error.message.includes(cause.replace(/\.$/, '')) ? `\n  caused by: ${cause}` : ''
  return `${error.code}: ${error.message}${more}`
}

/** The first cause: what wraps it ("Workflow Update failed") says less. */
function rootOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootOf(error.cause) : error
}

function firstLineOf(text: string): string {
  return text.split('\n', 1)[0] ?? ''
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
