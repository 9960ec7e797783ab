// Errors of the local stack.
import { PawlError } from '../session/errors.ts'

/** The codes of `StackError`. */
export type StackErrorCode =
  | 'temporal_not_found'
  | 'postgres_not_found'
  | 'temporal_unreachable'
  | 'temporal_namespace_missing'
  | 'temporal_start_failed'
  | 'postgres_unreachable'
  | 'postgres_start_failed'
  | 'postgres_version'
  | 'data_dir_in_use'
  | 'data_dir_unusable'
  | 'keeper_failed'
  | 'not_embedded'
  | 'database_failed'

/** The local stack could not be started or used; `code` says why. */
export class StackError extends PawlError {
  override readonly name = 'StackError'

  constructor(code: StackErrorCode, message: string, options?: { cause?: unknown }) {
    super(code, message, options)
  }
}

/** The message of anything thrown, on one line. An AggregateError, such as a refused connection, has its messages in its parts. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(reasonOf).join('; ')
  const message = error instanceof Error ? error.message || error.name : String(error)
  const cause = error instanceof Error && error.cause !== undefined ? ` (${reasonOf(error.cause)})` : ''
  return `${message.trim().replaceAll(/\s*\n\s*/g, ' ')}${cause}`
}
