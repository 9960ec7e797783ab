// Errors of starting a worker.
import { PawlError } from '../session/errors.ts'

/**
 * A worker that cannot run. Codes: `invalid_options`, `no_postgres`, `no_agents`, `module_not_found`, `module_failed`, `services_failed`,
 * `module_hangs`, `module_exited`, `module_dies`, `no_typescript_loader`, `worker_start_failed`; of a reload, `reload_superseded`,
 * `worker_stopping`.
 */
export class WorkerError extends PawlError {
  override readonly name = 'WorkerError'
}
