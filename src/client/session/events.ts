// A session's events as a backend reads them: from the store or, if that is unreachable or behind, from the workflow itself.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import { queryEvents } from '../../connect/session-queries.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { EventsPage } from '../../session/protocol/protocol.ts'
import { isForeignNamespace } from '../../store/errors.ts'
import type { MessageRow } from '../../store/rows.ts'
import type { Store } from '../../store/store.ts'
import { isErased } from './erased.ts'
import { whyUnavailable } from './hold-ups.ts'
import { messageRows } from './message-rows.ts'
import { eventsOf } from './past.ts'

/** Where events are read from. */
export interface SessionSource {
  sessionId: string
  client: Client
  store: Store | undefined
  /** Aborts when the client is closed, with the error with which every wait for events then ends. */
  closed: AbortSignal
  /** The session's agent, if its handle was opened with one. */
  agent?: string
  /** The newest event that its user knows of: what is read after it must not be older. */
  seen: { seq: number }
}

/** How long the store is waited for before the workflow is asked. */
export const STORE_PATIENCE_MS = 1_000
const POLL_STORE_MS = 25
const QUERY_TIMEOUT_MS = 5_000
/** Bytes of JSON that a reader holds at a time. */
const PAGE_BYTES = 500_000
/**
 * A page of the events above `after` that are available now; empty if there are none.
 * @throws SessionNotFoundError, and SessionUnavailableError if neither the store nor the workflow can say whether there are any.
 */
export async function readEvents(source: SessionSource, after: number): Promise<SessionEvent[]> {
  const events = await availableEvents(source, after)
  noteSeen(source, events.at(-1)?.seq)
  return events
}

/** Notes that the session's user knows of the event. */
export function noteSeen({ seen }: Pick<SessionSource, 'seen'>, seq = 0): void {
  if (seq > seen.seq) seen.seq = seq
}

async function availableEvents(source: SessionSource, after: number): Promise<SessionEvent[]> {
  const stored = await readStored(source, async (store) => store.events(source.sessionId, { after, bytes: PAGE_BYTES }))
  if (stored.rows && stored.rows.length > 0) return stored.rows
  try {
    if (stored.rows && (await isErased(source))) return stored.rows
    return await workflowEvents(source, after, PAGE_BYTES)
  } catch (failed) {
    // If the session's workflow no longer exists, the store has all its events.
    if (stored.rows && (await readStored(source, async (store) => store.head(source.sessionId))).rows) return stored.rows
    throw await whyUnavailable(source, { ...whyFailed(failed), storeError: stored.error })
  }
}

/**
 * All messages, as rows of the store, at least as new as what the session's user has seen.
 * @throws SessionNotFoundError, SessionUnavailableError.
 */
export async function readMessages(source: SessionSource): Promise<MessageRow[]> {
  const stored = await readStored(source, async (store) => storedMessages(store, source))
  if (stored.rows && !stored.rows.isBehind) return stored.rows.messages
  try {
    const messages = messageRows()
    for await (const event of eventsOf((after) => workflowEvents(source, after, PAGE_BYTES))) messages.add(event)
    return messages.rows()
  } catch (failed) {
    if (stored.rows) return stored.rows.messages
    throw await whyUnavailable(source, { ...whyFailed(failed), storeError: stored.error })
  }
}

/** The stored messages, as soon as the store has what the session's user has seen; undefined if it does not know the session. */
async function storedMessages(store: Store, { sessionId, seen }: SessionSource) {
  const giveUpAt = Date.now() + STORE_PATIENCE_MS
  for (;;) {
    // Read first: the messages are then at least as new.
    const head = await store.head(sessionId)
    const isBehind = (head?.seq ?? 0) < seen.seq
    if (isBehind && Date.now() < giveUpAt) await sleep(POLL_STORE_MS)
    else return head ? { messages: await store.messages(sessionId), isBehind } : undefined
  }
}

/** All events above `after` that are available now. */
export function allEvents(source: SessionSource, after = 0): AsyncGenerator<SessionEvent> {
  return eventsOf((from) => readEvents(source, from), after)
}

/** The events above `after` that the store has. @throws SessionUnavailableError if it is unreachable. */
export function storedEvents(source: SessionSource, after = 0): AsyncGenerator<SessionEvent> {
  return eventsOf(async (from) => {
    const stored = await readStored(source, async (store) => store.events(source.sessionId, { after: from, bytes: PAGE_BYTES }))
    if (stored.rows) return stored.rows
    throw await whyUnavailable(source, { storeError: stored.error })
  }, after)
}

/** What the store has: nothing without a store, and the error if it is unreachable. */
export async function readStored<T>({ store }: SessionSource, read: (store: Store) => Promise<T>): Promise<{ rows?: T; error?: unknown }> {
  try {
    return store ? { rows: await read(store) } : {}
  } catch (error) {
    if (isForeignNamespace(error)) throw error
    return { error }
  }
}

/** A worker has reported that an execution has not opened its session yet, or ended without doing so. */
class NotOpenYet extends Error {}

function whyFailed(failed: unknown): { failed?: unknown } {
  return failed instanceof NotOpenYet ? {} : { failed }
}

/** An execution of the chain, and the last event to read from it. */
interface ChainLink {
  executionId: string | undefined
  upTo: number
}

/** A page of the events above `after` of the live chain of executions. */
export async function workflowEvents({ client, sessionId }: SessionSource, after: number, bytes: number): Promise<SessionEvent[]> {
  let { base, previous, events } = await queryPage(client, sessionId, undefined, { after, maxBytes: bytes })
  // Each execution has its own events only. The oldest one that has some of these is searched first.
  const later: ChainLink[] = []
  let link: ChainLink = { executionId: undefined, upTo: Number.POSITIVE_INFINITY }
  while (base.seq > after && previous !== undefined) {
    later.push(link)
    link = { executionId: previous, upTo: base.seq }
    ;({ base, previous, events } = await queryPage(client, sessionId, link.executionId, { after, maxBytes: bytes }))
  }
  for (;;) {
    const { upTo } = link
    const found = events.filter(({ seq }) => seq <= upTo)
    const next = later.pop()
    if (found.length > 0 || !next) return found
    link = next
    ;({ events } = await queryPage(client, sessionId, link.executionId, { after, maxBytes: bytes }))
  }
}

async function queryPage(
  client: Client,
  sessionId: string,
  executionId: string | undefined,
  query: { after: number; maxBytes?: number },
): Promise<EventsPage> {
  const page = await queryEvents(client, { sessionId, executionId }, { ...query, lasting: true }, QUERY_TIMEOUT_MS)
  if (!page) throw new NotOpenYet('the session is still loading')
  return page
}
