// The messages that a session delivers later.
import { scheduledIn } from '../../session/fold/scheduled.ts'
import { counted } from '../../session/counted.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { RequestRefusedError } from '../errors.ts'
import type { ScheduledMessage } from '../types.ts'
import type { SessionSource } from './events.ts'
import { readState } from './state.ts'

/** The session's scheduled messages, the earliest first. */
export async function readScheduled(source: SessionSource): Promise<ScheduledMessage[]> {
  return scheduledIn(await readState(source)).map(({ messageId, dueAt, content, metadata = null, by = null, at }) => {
    return { messageId, dueAt: new Date(dueAt), content, metadata, by, scheduledAt: new Date(at) }
  })
}

/** How many scheduled messages keep the session open. */
export async function countScheduled(source: SessionSource): Promise<number> {
  const state = await readState(source)
  return state.status === 'closed' ? 0 : scheduledIn(state).length
}

/** A session with scheduled messages does not close. */
export function hasScheduled(session: string, count: number): RequestRefusedError {
  return new RequestRefusedError(
    'messages_scheduled',
    `The session keeps ${counted(count, 'scheduled message')}, which it could not deliver if it closed. \`${SUGGESTIONS.scheduled({ session })}\` lists them. Close it once they have been delivered, or with \`unschedule: true\`.`,
  )
}
