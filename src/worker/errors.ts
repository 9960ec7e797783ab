// Errors from starting a worker.
import { defined } from '../session/defined.ts'
import { PawlError } from '../session/errors.ts'

/**
 * A worker cannot run. Codes: `no_postgres`, `module_not_found`, `module_failed`, `services_failed`,
 * `module_hangs`, `module_exited`, `module_dies`, `no_typescript_loader`, `no_telemetry_packages`, `worker_start_failed`; for a reload,
 * `reload_superseded`, `worker_stopping`.
 */
export class WorkerError extends PawlError {
  override readonly name = 'WorkerError'
}

/** An error as it crosses to the parent. */
export interface CrossingError {
  /** The name of its class. */
  name: string
  code: string
  message: string
  cause?: string
}

/** The reason why a process of the worker could not start, in a form that can be sent to the parent. */
export function crossing(error: unknown): CrossingError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : undefined
  if (error instanceof PawlError) return { name: error.name, code: error.code, message: error.message, ...defined({ cause }) }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { name: 'WorkerError', code: 'worker_start_failed', message, ...defined({ cause }) }
}
