// How long the body of a lost call may still be running.
import type { Resolution } from '../../session/events.ts'

/** The time after a tool's timeout until its body counts as dead if no supervisor can confirm the death. */
const DEATH_GRACE_MS = 5_000

/**
 * How long a call's body may still be running once its loss is known. The body may have been entered just before, however long ago its
 * activity was scheduled. The calculation does not compare clocks of different machines.
 */
export function mayLiveForMs({ timeoutMs }: Resolution): number {
  return timeoutMs + DEATH_GRACE_MS
}
