// Scheduled messages: their delivery when they are due, and the update that takes them back.
import { shortHash } from '../session/digest.ts'
import { deliveryOf, scheduledIn } from '../session/fold/scheduled.ts'
import type { UnscheduleAnswer, UnscheduleRequest } from '../session/protocol/protocol.ts'
import type { ScheduledEntry } from '../session/state.ts'
import { hasCaughtUp, refuse, type Session, stopDetails } from './session-parts.ts'
import { followArrival } from './signals.ts'
import { onceTrue } from './once-true.ts'

/**
 * Delivers the messages that are due at this time, once the session has recorded what earlier executions had done and accepted: a message may
 * have been unscheduled there, and others came before it.
 */
export function deliverDue(session: Session, dueAt: number): void {
  const { journal } = session
  const deliverNow = (): void => {
    if (!journal.hasEnded) deliver(session, (message) => message.dueAt <= dueAt)
  }
  if (hasCaughtUp(session)) deliverNow()
  else onceTrue(() => hasCaughtUp(session) || journal.hasEnded, deliverNow)
}

/** Delivers a message that an earlier execution had delivered, in the order of what that execution received. */
export function deliverAgain(session: Session, hash: unknown): void {
  deliver(session, ({ messageId }) => shortHash(messageId) === hash)
}

function deliver(session: Session, isDue: (message: ScheduledEntry) => boolean): void {
  const { journal, alarms } = session
  for (const message of scheduledIn(journal.state).filter(isDue)) {
    journal.append(deliveryOf(message))
    followArrival(session, message)
  }
  alarms.follow()
}

/** Takes scheduled messages back. */
export function unschedule({ journal, alarms, flushing }: Session, request: UnscheduleRequest): UnscheduleAnswer {
  const { messageId, all } = request
  const messageIds = scheduledIn(journal.state).flatMap((one) => (all === true || one.messageId === messageId ? [one.messageId] : []))
  if (messageIds.length === 0) {
    if (all === true) return { messageIds }
    refuse('not_scheduled', 'No scheduled message has this id: it was delivered or unscheduled, or was never scheduled.')
  }
  journal.append({ type: 'messages_unscheduled', messageIds, ...stopDetails(request) })
  alarms.follow()
  flushing.nudge()
  return { messageIds }
}
