// Of a session's events, those that its conversation still shows: going back, restarting and abandoning take others out.
import type { EventOf, SessionEvent } from '../session/events.ts'

/** An event of the conversation. */
export interface Surviving {
  event: SessionEvent
  /** Only what users said there is left: answers and calls are archived. */
  isLeft: boolean
}

/** The events that are left by the newest one, in order. */
export function surviving(events: readonly SessionEvent[]): Surviving[] {
  let kept: Surviving[] = []
  let runSeq = 0
  for (const event of events) {
    if (event.type === 'session_started') kept = []
    if (event.type === 'rolled_back') kept = rolledBack(kept, event)
    if (event.type === 'forked') kept = withoutWaiting(kept, () => true)
    if (event.type === 'recovery_started') {
      const { strategy, toSeq } = event
      if (strategy === 'restart_run') kept = kept.filter((one) => one.event.seq < runSeq || isSaid(one))
      if (strategy === 'abandon') kept = leave(kept, runSeq)
      if (strategy === 'restart_from_last_effect' && toSeq !== undefined) kept = leave(kept, toSeq)
    }
    if (event.type === 'run_started') runSeq = event.seq
    kept.push({ event, isLeft: false })
  }
  return kept
}

const isSaid = ({ event }: Surviving): boolean => event.type === 'message_received'

/** Answers and results after the event leave; what users said stays where it was. */
function leave(kept: readonly Surviving[], keptSeq: number): Surviving[] {
  return kept.map((one) => (one.event.seq > keptSeq ? { ...one, isLeft: true } : one))
}

function rolledBack(kept: readonly Surviving[], { toSeq, upToSeq, keepsRun, again }: EventOf<'rolled_back'>): Surviving[] {
  const waits = new Set((again?.messages ?? []).map(({ messageId }) => messageId))
  const before = kept.filter((one) => one.event.seq <= toSeq || isSaid(one))
  if (keepsRun) return before
  return withoutWaiting(before, ({ seq, messageId }) => seq <= upToSeq && !waits.has(messageId))
}

/** Without messages that no turn has taken. */
function withoutWaiting(kept: readonly Surviving[], isGone: (event: EventOf<'message_received'>) => boolean): Surviving[] {
  const taken = new Set(kept.flatMap(({ event }) => (event.type === 'turn_started' ? event.takes : [])))
  return kept.filter(({ event }) => event.type !== 'message_received' || taken.has(event.messageId) || !isGone(event))
}
