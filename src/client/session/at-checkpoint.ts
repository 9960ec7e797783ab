// A session as it was at a checkpoint: its events up to there, and the state that they fold to.
import type { SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import type { SessionState } from '../../session/state.ts'
import { RequestRefused } from '../errors.ts'
import { allEvents, type EventSource } from './events.ts'
import { readState } from './state.ts'

/** All events, or those up to the checkpoint. @throws RequestRefused `checkpoint_not_found`. */
export async function eventsUpTo(source: EventSource, at?: number): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of allEvents(source)) {
    events.push(event)
    if (at !== undefined && marks(event, at)) return events
  }
  if (at === undefined) return events
  throw noCheckpoint(source.sessionId, at)
}

/** Those of all events of a session that lead up to the checkpoint; all without one. @throws RequestRefused `checkpoint_not_found`. */
export function upTo(sessionId: string, events: readonly SessionEvent[], at: number | undefined): readonly SessionEvent[] {
  if (at === undefined) return events
  const place = events.findIndex((event) => marks(event, at))
  if (place < 0) throw noCheckpoint(sessionId, at)
  return events.slice(0, place + 1)
}

const marks = (event: SessionEvent, at: number): boolean => event.type === 'checkpoint_made' && event.version === at

function noCheckpoint(sessionId: string, at: number): RequestRefused {
  return new RequestRefused('checkpoint_not_found', `Session "${sessionId}" has no checkpoint ${at}: list them with session.checkpoints().`)
}

/** Checks that the session's first events are there. @throws RequestRefused `events_gone`. */
export function checkBeginning({ sessionId }: Pick<EventSource, 'sessionId'>, [first]: readonly SessionEvent[], what: string): void {
  if (first?.type === 'session_started') return
  throw new RequestRefused(
    'events_gone',
    `The first events of session "${sessionId}" were pruned or erased: ${what} can no longer be folded.`,
  )
}

/** The state now, or at the checkpoint. @throws RequestRefused `checkpoint_not_found`, `events_gone`. */
export async function stateAt(source: EventSource, at: number | undefined): Promise<SessionState> {
  if (at === undefined) return readState(source)
  const events = await eventsUpTo(source, at)
  checkBeginning(source, events, 'its earlier states')
  return fold(undefined, events) ?? readState(source)
}
