// The activity `loadFork`: copies another session's past to the fork's id in the store, and folds it.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import { blobOf } from '../session/blobs.ts'
import { queryState } from '../connect/session-queries.ts'
import { continues } from '../session/digest.ts'
import type { LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { fold } from '../session/fold/fold.ts'
import type { ForkStart } from '../session/protocol/protocol.ts'
import { snapshotOf } from '../session/fold/snapshot.ts'
import type { SessionState } from '../session/state.ts'
import { isErased } from '../store/errors.ts'
import type { Store } from '../store/store.ts'
import type { LoadForkInput, LoadForkResult, NotYet } from '../calls/activities.ts'
import { currentSession } from './current-session.ts'
import { CannotLoad, loading } from './loading.ts'
import { counted } from '../session/counted.ts'

const QUERY_TIMEOUT_MS = 10_000

/** The activity waits for the store, and until the store has the newest events of the other session. */
export function loadForkActivity(store: Store) {
  return function loadFork({ epoch, fork, ...how }: LoadForkInput): Promise<LoadForkResult | NotYet> {
    const { client, sessionId } = currentSession()
    return loading(how, () => copyPast(store, client, sessionId, epoch, fork))
  }
}

/** Copies the past, and returns the state that it makes. */
export async function copyPast(store: Store, client: Client, sessionId: string, epoch: string, fork: ForkStart): Promise<LoadForkResult> {
  const { from, seq } = fork
  const refuse = (code: string, reason: string): LoadForkResult => ({ kind: 'refused', code, reason })
  const own = await store.head(sessionId)
  if (own && own.epoch !== epoch)
    return refuse('session_exists', `A session "${sessionId}" already exists. Choose another id for the fork.`)
  const stored = (await store.head(from))?.seq ?? 0
  if (from === sessionId)
    return refuse('session_not_found', `The session "${from}" cannot be forked into itself. Choose another id for the fork.`)
  if (stored < seq) {
    const known = await knownSeq(from, client)
    if (known === undefined && stored === 0) return refuse('session_not_found', `There is no session "${from}" to fork from. Check the id.`)
    if ((known ?? stored) < seq)
      return refuse('checkpoint_not_found', `Session "${from}" has ${counted(known ?? stored, 'event')}, not ${seq}.`)
    // The events are about to be stored.
    const has = `The store has the events of session "${from}" up to ${stored}, but the fork begins at ${seq}.`
    throw new CannotLoad('archive_unavailable', has)
  }
  const found = await pastOf(store, fork)
  if (!found) {
    const how = (await store.lists.erasure(from)) ? 'erased' : 'pruned'
    return refuse('checkpoint_not_found', `The events of "${from}" up to ${seq} were ${how}, so the fork cannot begin there.`)
  }
  // Nothing is written under the fork's id before this check: otherwise a new session with that id could not be stored.
  if (found.at.digest !== fork.digest) {
    return refuse(
      'checkpoint_not_found',
      `The events of "${from}" up to ${seq} are not the ones that the fork should begin with. Fork again.`,
    )
  }
  await copyPages(store, sessionId, epoch, fork)
  const copied = await store.head(sessionId)
  // The store would refuse every later event of a fork whose copy has a gap.
  if (copied?.digest !== fork.digest) {
    const copy = copied ? ` The erasure names session "${sessionId}", which has a part of them: erase it, too.` : ''
    return refuse('checkpoint_not_found', `The events of "${from}" were erased while they were being copied.${copy}`)
  }
  return { kind: 'loaded', state: snapshotOf(found.state), digest: fork.digest }
}

/** Copies the pages until all are copied, or the events are deleted. */
async function copyPages(store: Store, sessionId: string, epoch: string, fork: ForkStart): Promise<void> {
  const { from } = fork
  try {
    for await (const page of pagesOf(store, fork)) {
      await store.flush(sessionId, epoch, page, { inherited: from })
      // Not before: an erasure of the other session names only sessions that have a row.
      const blobs = page.flatMap((entry) => blobOf(eventOf(entry))?.sha256 ?? [])
      await store.blobs.copy(from, sessionId, blobs, epoch)
    }
  } catch (error) {
    if (!isErased(error)) throw error
  }
}

/** The other session's state at the point where the fork begins; undefined if the store lacks events. */
async function pastOf(store: Store, fork: ForkStart): Promise<{ state: SessionState; at: Watermark } | undefined> {
  let at: Watermark = { seq: 0, digest: '' }
  let state: SessionState | undefined
  for await (const page of pagesOf(store, fork)) {
    if (!continues(at, page)) return undefined
    state = fold(state, page.map(eventOf))
    at = page.at(-1) ?? at
  }
  return state && at.seq === fork.seq ? { state, at } : undefined
}

/** The stored entries that the fork inherits. */
async function* pagesOf(store: Store, { from, seq }: ForkStart): AsyncGenerator<LogEntry[]> {
  for (let after = 0; after < seq; ) {
    const page = (await store.entries(from, { after })).filter((entry) => entry.seq <= seq)
    const last = page.at(-1)
    if (!last) return
    yield page
    after = last.seq
  }
}

function eventOf({ json }: LogEntry): SessionEvent {
  return JSON.parse(json) as SessionEvent
}

/** How many events the session's workflow reports; undefined if Temporal does not have it. @throws if the session is not open yet. */
async function knownSeq(sessionId: string, client: Client): Promise<number | undefined> {
  try {
    const state = await queryState(client, sessionId, QUERY_TIMEOUT_MS)
    if (!('v' in state)) throw new Error(`the session ${sessionId} is not open yet`)
    return state.seq
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}
