// A session as it was at a checkpoint: its events up to there, and the state then.
import type { SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import type { SessionState } from '../../session/state.ts'
import type { Store } from '../../store/store.ts'
import { RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { type SessionSource, readEvents } from './events.ts'
import { eventsOf, type ReadPage } from './past.ts'
import { storedState } from './state.ts'
import { unlessAway } from './unless-away.ts'

/** Where a session's past is read. */
export interface PastOf extends Pick<SessionSource, 'sessionId' | 'store'> {
  read: ReadPage
  /** Set if pawl reads only the store. */
  where?: 'store'
}

/** The past as a client reads it: from the store or the workflow. */
export function pastOf(source: SessionSource): PastOf {
  return { sessionId: source.sessionId, store: source.store, read: (after) => readEvents(source, after) }
}

/**
 * All events, or those up to the checkpoint, one by one.
 * @throws SessionNotFoundError, RequestRefusedError `checkpoint_not_found`, `events_gone` if `what` needs the first events and they are
 * gone.
 */
export async function* eventsUpTo(
  { sessionId, read, where }: Omit<PastOf, 'store'>,
  at: number | undefined,
  what: string,
): AsyncGenerator<SessionEvent> {
  let isEmpty = true
  for await (const event of eventsOf(read)) {
    if (isEmpty && event.type !== 'session_started') throw eventsGone(sessionId, what)
    isEmpty = false
    yield event
    if (at !== undefined && event.type === 'checkpoint_made' && event.version === at) return
  }
  if (isEmpty) throw new SessionNotFoundError(sessionId, where && { where })
  if (at !== undefined) {
    const list = 'list them with session.checkpoints()'
    throw new RequestRefusedError('checkpoint_not_found', `Session "${sessionId}" has no checkpoint ${at}: ${list}.`)
  }
}

function eventsGone(sessionId: string, what: string): RequestRefusedError {
  return new RequestRefusedError(
    'events_gone',
    `The first events of session "${sessionId}" are no longer stored: ${what} cannot be computed.`,
  )
}

/**
 * The state at the checkpoint: from the store's row of it or, if that cannot be read, from the events.
 * @throws SessionNotFoundError, RequestRefusedError `checkpoint_not_found`, `events_gone`.
 */
export async function stateAt(past: PastOf, at: number): Promise<SessionState> {
  const { sessionId, store } = past
  const kept = store && (await unlessAway(() => keptState(store, sessionId, at)))
  if (kept) return kept
  let state: SessionState | undefined
  for await (const event of eventsUpTo(past, at, 'its earlier states')) state = fold(state, [event])
  if (!state) throw new SessionNotFoundError(sessionId)
  return state
}

/** The state now or at the checkpoint, as the store knows it. @throws SessionNotFoundError, RequestRefusedError as `stateAt`. */
export async function storedStateAt(store: Store, sessionId: string, at: number | undefined): Promise<SessionState> {
  if (at !== undefined) return stateAt({ sessionId, store, read: (after) => store.events(sessionId, { after }), where: 'store' }, at)
  const state = await storedState(store, sessionId)
  if (!state) throw new SessionNotFoundError(sessionId, { where: 'store' })
  return state
}

async function keptState(store: Store, sessionId: string, version: number): Promise<SessionState | null> {
  const seq = await store.checkpointSeq(sessionId, version)
  return seq === null ? null : store.stateAt(sessionId, seq)
}
