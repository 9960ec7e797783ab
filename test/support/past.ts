// The past of a session from events that a test has in memory.
import type { SessionEvent } from 'pawl'
import { messageRowsOf } from '../../src/client/session/message-rows.ts'
import { MEMORY, type MemoryVersion, PLAN, type PlanVersion } from '../../src/session/built-in-tools/kept.ts'
import { locate } from '../../src/session/recovery/targets.ts'
import type { MessageRow } from '../../src/store/rows.ts'
import type { Target } from '../../src/session/events.ts'

/** All of these events, added one by one. */
function added<T extends { add(event: SessionEvent): void }>(to: T, events: readonly SessionEvent[]): T {
  for (const event of events) to.add(event)
  return to
}

export const planVersions = (events: readonly SessionEvent[]): readonly PlanVersion[] => added(PLAN.history(), events).versions

export const memoryVersions = (events: readonly SessionEvent[]): readonly MemoryVersion[] => added(MEMORY.history(), events).versions

/** The rows of the transcript at the target. */
export function rowsAt(events: readonly SessionEvent[], target: Target): MessageRow[] {
  const entries = events.map((event) => ({ event, digest: '' }))
  const { seq } = locate(entries, target, { archived: true })
  return messageRowsOf(events.filter((event) => event.seq <= seq)).filter(({ run }) => run !== null)
}
