// What goes wrong when a worker starts.
import { PawlError } from '../session/errors.ts'

/**
 * A worker that cannot serve. Codes: `invalid_options`, `no_postgres`, `no_agents`, `module_not_found`, `module_failed`,
 * `no_typescript_loader`, `worker_start_failed`.
 */
export class WorkerError extends PawlError {
  override readonly name = 'WorkerError'
}
