// Which core an execution folds and decides with: the one that it began with, whatever its worker knows by now.
import { CORE_VERSION, type SessionStart } from '../session/protocol.ts'

/**
 * The core of an execution: its predecessor's choice, or the newest at the time when it began, by the SDK's markers of what was patched.
 * A worker that is too old throws: a task that fails is given to another one, which may know this core.
 */
export function coreVersionOf(
  carried: Pick<NonNullable<SessionStart['carried']>, 'coreVersion'> | undefined,
  patched: (patch: string) => boolean,
  newest: number = CORE_VERSION,
): number {
  const version = carried?.coreVersion ?? newestPatched(patched, newest)
  if (version > newest) throw new Error(`pawl: this worker knows core ${newest}, the session needs ${version}: update it`)
  return version
}

function newestPatched(patched: (patch: string) => boolean, newest: number): number {
  for (let version = newest; version > 1; version--) if (patched(`core-${version}`)) return version
  return 1
}
