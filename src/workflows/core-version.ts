// The core version of an execution: the version it began with, even if its worker knows a newer one.
import { CORE_VERSION, type SessionStart } from '../session/protocol/protocol.ts'

/**
 * The core version of an execution: its predecessor's, or the newest one when it began, according to the SDK's patch markers. On a worker
 * that is too old it throws, so that the task goes to another worker, which may know this version.
 */
export function coreVersionOf(
  carried: Pick<NonNullable<SessionStart['carried']>, 'coreVersion'> | undefined,
  patched: (patch: string) => boolean,
  newest: number = CORE_VERSION,
): number {
  const version = carried?.coreVersion ?? newestPatched(patched, newest)
  if (version > newest) throw new Error(`pawl: this worker knows core ${newest}, but the session needs core ${version}. Update the worker.`)
  return version
}

function newestPatched(patched: (patch: string) => boolean, newest: number): number {
  for (let version = newest; version > 1; version--) if (patched(`core-${version}`)) return version
  return 1
}
