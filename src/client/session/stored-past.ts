// The past of a session for readers that need only parts of it: what the side store has, and what it does not have yet.
import type { SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import { lacksCalls } from '../../session/fold/snapshot.ts'
import type { PastSource } from '../../session/past/source.ts'
import type { SessionState } from '../../session/state.ts'
import type { Store } from '../../store/store.ts'
import type { SessionHandle } from '../types.ts'
import { allEvents, type SessionSource } from './events.ts'
import { pagesOf } from './past.ts'
import { askState } from './state.ts'
import { unlessAway } from './unless-away.ts'

/** A reader holds at most this much that is not stored. */
const MAX_TAIL_CHARACTERS = 5_000_000
/** Bytes of JSON that are read at a time. */
const PAGE_BYTES = 500_000

/** A session's past. */
export interface StoredPast extends PastSource {
  /** `seq` of the newest event. */
  top: number
  /** The newest events, which the store may not have yet, oldest first. */
  tail: readonly SessionEvent[]
  /** The state after all of them; undefined if it was not requested. */
  state: SessionState | undefined
  /** Some of the events with these `seq`, in the given order, but at least one if any is stored. */
  at(seqs: readonly number[]): Promise<SessionEvent[]>
  /** The event that recorded the message, or rejected it, and where a turn took it. */
  locate(messageId: string): Promise<{ event: SessionEvent | undefined; takenAt: number | null }>
}

const sources = new WeakMap<object, SessionSource>()

/** Records where the events of a session are read from. */
export function noteSource(session: object, source: SessionSource): void {
  sources.set(session, source)
}

/** The bytes of a large value of the session; undefined if the store does not have it, or cannot be read. */
export function valueBytes(session: SessionHandle, sha256: string): Promise<number | undefined> {
  return unlessAway(async () => sources.get(session)?.store?.blobs.size(session.id, sha256))
}

/**
 * The session's past; undefined if the store has nothing of it, cannot be read, or does not know its state: all events must be read then.
 * `wants`: whether the state is needed, too, or only what is stored.
 */
export async function storedPastOf(session: SessionHandle, wants: { state: boolean } | 'stored'): Promise<StoredPast | undefined> {
  const source = sources.get(session)
  if (!source?.store) return undefined
  const { store } = source
  return unlessAway(async () => {
    const stored = await store.head(session.id)
    if (!stored) return undefined
    if (wants === 'stored') return { state: undefined, tail: [], top: stored.seq, ...pastIn(store, session.id) }
    const above = wants.state ? await stateAndTail(source, store, stored.seq) : { state: undefined, tail: await tailOf(source, stored.seq) }
    const { state, tail } = above ?? {}
    return tail && { state, tail, top: tail.at(-1)?.seq ?? stored.seq, ...pastIn(store, session.id) }
  })
}

/** The events above the stored ones; undefined: there are too many to hold. */
function tailOf(source: SessionSource, after: number): Promise<SessionEvent[] | undefined> {
  return held(allEvents(source, after))
}

async function held(events: AsyncIterable<SessionEvent>, upTo = Number.MAX_SAFE_INTEGER): Promise<SessionEvent[] | undefined> {
  const all: SessionEvent[] = []
  let characters = 0
  for await (const event of events) {
    if (event.seq > upTo) break
    characters += JSON.stringify(event).length
    if (characters > MAX_TAIL_CHARACTERS) return undefined
    all.push(event)
  }
  return all
}

/** The workflow answers with its state in little more time than it needs to say that there are no further events. */
async function stateAndTail(source: SessionSource, store: Store, head: number): Promise<Pick<StoredPast, 'state' | 'tail'> | undefined> {
  const { state: live } = await askState(source)
  const state = live ?? (await store.state(source.sessionId))
  if (!state || (live && lacksCalls(live))) return undefined
  if (state.seq === head) return { state, tail: [] }
  if (state.seq < head) {
    const newer = await held(storedAfter(source, store, state.seq), head)
    return newer && { state: fold(state, newer), tail: [] }
  }
  const tail = await held(live ? allEvents(source, head) : storedAfter(source, store, head), live ? undefined : state.seq)
  if (!tail || (tail.at(-1)?.seq ?? 0) < state.seq) return undefined
  const newer = tail.filter(({ seq }) => seq > state.seq)
  return { state: fold(state, newer), tail }
}

async function* storedAfter({ sessionId }: SessionSource, store: Store, after: number): AsyncGenerator<SessionEvent> {
  for await (const page of pagesOf((from) => store.events(sessionId, { after: from, bytes: PAGE_BYTES }), after)) yield* page
}

function pastIn(store: Store, sessionId: string): Omit<StoredPast, 'top' | 'tail' | 'state'> {
  const { conversation } = store
  const one = async (seq: number): Promise<SessionEvent | undefined> => (await conversation.at(sessionId, [seq]))[0]
  return {
    upTo: (seq) => conversation.upTo(sessionId, seq),
    after: (seq) => store.events(sessionId, { after: seq, limit: 50, bytes: 500_000 }),
    turningPoints: (after, before) => conversation.turningPoints(sessionId, after, before),
    async runUpTo(seq) {
      const run = await store.newestRun(sessionId, seq)
      return run === null ? undefined : one(run)
    },
    messages: (ids) => conversation.messages(sessionId, ids),
    waiting: async () => (await conversation.messages(sessionId, undefined)).map(({ event }) => event),
    output: (callId, before) => conversation.output(sessionId, callId, before),
    at: (seqs) => conversation.at(sessionId, seqs),
    async locate(messageId) {
      const [said] = (await conversation.messages(sessionId, [messageId])).reverse()
      if (said) return said
      const { after, archived, gone } = await store.locateMessage(sessionId, messageId)
      const event = gone ? undefined : await one((archived ?? after) + 1)
      const isOfMessage = event && 'messageId' in event && event.messageId === messageId
      return { event: isOfMessage ? event : undefined, takenAt: null }
    },
  }
}
