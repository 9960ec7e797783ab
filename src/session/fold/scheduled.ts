// The fold of messages that are delivered later.
import { defined } from '../defined.ts'
import type { EventOf } from '../events.ts'
import type { ScheduledEntry, SessionState } from '../state.ts'
import { keepTakenWithinBounds } from './queue.ts'

/** Adds a message; the earliest comes first, and of those that are due at the same time the one that was scheduled first. */
export function schedule(state: SessionState, event: EventOf<'message_scheduled'>): void {
  const { type: _, v: __, ...message } = event
  const scheduled = scheduledIn(state)
  const at = scheduled.findIndex(({ dueAt }) => dueAt > message.dueAt)
  state.scheduled = at < 0 ? [...scheduled, message] : scheduled.toSpliced(at, 0, message)
  keepTakenWithinBounds(state)
}

/** Removes messages that are delivered now, or never. */
export function removeScheduled(state: SessionState, ...messageIds: string[]): void {
  const left = scheduledIn(state).filter(({ messageId }) => !messageIds.includes(messageId))
  if (left.length > 0) state.scheduled = left
  else delete state.scheduled
}

/** The session's scheduled messages, the earliest first. */
export function scheduledIn({ scheduled = [] }: SessionState): readonly ScheduledEntry[] {
  return scheduled
}

/** The event that delivers a scheduled message. */
export function deliveryOf({ messageId, content, metadata, blob, deadlineMs, by, traceparent, dueAt }: ScheduledEntry) {
  return { type: 'message_received', messageId, content, ...defined({ metadata, blob, deadlineMs, by, traceparent }), dueAt } as const
}
