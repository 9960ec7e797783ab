// Errors of the connection to a Temporal server.
import { PawlError } from '../session/errors.ts'

/** No Temporal server answers. Code `no_temporal`. */
export class ConnectError extends PawlError {
  override readonly name = 'ConnectError'
}
