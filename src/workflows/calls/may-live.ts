// How long the body of a lost call may keep running.
import type { Resolution } from '../../session/call-facts.ts'
import { OVERDUE_GRACE_MS } from '../../session/overdue.ts'

/**
 * How long a call's body may keep running once its loss is known. The body may have been entered just before the loss, even if its activity
 * was scheduled long ago. The calculation does not compare clocks of different machines.
 */
export function mayLiveForMs({ timeoutMs }: Resolution): number {
  return timeoutMs + OVERDUE_GRACE_MS
}
