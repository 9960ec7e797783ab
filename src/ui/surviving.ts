// Selects the events that a session's conversation still shows. Rollbacks, restarts and abandoned runs remove the others.
import type { EventOf, SessionEvent } from '../session/events.ts'

/** An event of the conversation. */
export interface Surviving {
  event: SessionEvent
  /** The answers and calls of this part are archived; only what users said in it remains. */
  isArchived: boolean
}

/** The events that remain after the newest one, in order. */
export function surviving(events: readonly SessionEvent[]): Surviving[] {
  let kept: Surviving[] = []
  let runSeq = 0
  for (const event of events) {
    if (event.type === 'session_started') kept = []
    if (event.type === 'rolled_back') kept = rolledBack(kept, event)
    if (event.type === 'forked') kept = withoutWaiting(kept, () => true)
    if (event.type === 'recovery_started') {
      const { strategy, toSeq } = event
      if (strategy === 'restart_run') kept = kept.filter((one) => one.event.seq < runSeq || isUserMessage(one))
      if (strategy === 'abandon') kept = archiveAfter(kept, runSeq)
      if (strategy === 'restart_from_last_effect' && toSeq !== undefined) kept = archiveAfter(kept, toSeq)
    }
    if (event.type === 'run_started') runSeq = event.seq
    kept.push({ event, isArchived: false })
  }
  return kept
}

const isUserMessage = ({ event }: Surviving): boolean => event.type === 'message_received'

/** Marks answers and results after the event as archived; what users said stays in place. */
function archiveAfter(kept: readonly Surviving[], keptSeq: number): Surviving[] {
  return kept.map((one) => (one.event.seq > keptSeq ? { ...one, isArchived: true } : one))
}

function rolledBack(kept: readonly Surviving[], { toSeq, upToSeq, keepsRun, again }: EventOf<'rolled_back'>): Surviving[] {
  const waits = new Set((again?.messages ?? []).map(({ messageId }) => messageId))
  const before = kept.filter((one) => one.event.seq <= toSeq || isUserMessage(one))
  if (keepsRun) return before
  return withoutWaiting(before, ({ seq, messageId }) => seq <= upToSeq && !waits.has(messageId))
}

/** Removes the messages that no turn has taken and for which `isGone` is true. */
function withoutWaiting(kept: readonly Surviving[], isGone: (event: EventOf<'message_received'>) => boolean): Surviving[] {
  const taken = new Set(kept.flatMap(({ event }) => (event.type === 'turn_started' ? event.takes : [])))
  return kept.filter(({ event }) => event.type !== 'message_received' || taken.has(event.messageId) || !isGone(event))
}
