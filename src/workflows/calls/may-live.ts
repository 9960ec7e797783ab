// How long the body of a lost call may still be running.
import type { Resolution } from '../../session/call-facts.ts'
import { OVERDUE_GRACE_MS } from '../../session/overdue.ts'

/**
 * How long a call's body may still be running once its loss is known. The body may have been entered just before, however long ago its
 * activity was scheduled. The calculation does not compare clocks of different machines.
 */
export function mayLiveForMs({ timeoutMs }: Resolution): number {
  return timeoutMs + OVERDUE_GRACE_MS
}
