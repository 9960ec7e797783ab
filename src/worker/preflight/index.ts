// The preflight. Loaded on demand, because it imports the Temporal SDK, which the parent of executors does not need.
import { checkPreflight } from '../check-options.ts'
import type { PreflightOptions, PreflightReport } from '../preflight-report.ts'

/**
 * Replays the histories of a task queue's open sessions with the workflow code of this build, and compares the sessions with the agents of
 * its module, before any worker of this build runs. Changes nothing, calls no tool or model, and polls no task queue.
 * @throws InvalidOptionError `invalid_option`; ConnectError `not_configured`, `no_temporal`; StoreError `invalid_postgres_url`,
 * `invalid_store_options`; WorkerError `module_not_found`, `module_failed`, `module_hangs`, `module_exited`, `no_typescript_loader`;
 * DeclarationError `no_agents`, `duplicate_agent`.
 */
export async function preflight(options: PreflightOptions = {}): Promise<PreflightReport> {
  const checked = checkPreflight(options)
  const implementation = await import('./preflight.ts')
  return implementation.preflight(checked)
}
