// What goes wrong between this process and a Temporal server.
import { PawlError } from '../session/errors.ts'

/** No Temporal server answers. Code `no_temporal`. */
export class ConnectError extends PawlError {
  override readonly name = 'ConnectError'
}
