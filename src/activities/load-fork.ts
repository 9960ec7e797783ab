// The activity `loadFork`: copies another session's past into the store under the fork's own name, and folds it.
import { Context } from '@temporalio/activity'
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import { blobOf } from '../session/blobs.ts'
import { continues } from '../session/digest.ts'
import type { LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { fold } from '../session/fold.ts'
import { type ForkStart, sessionIdOf, workflowIdOf } from '../session/protocol.ts'
import { snapshotOf } from '../session/snapshot.ts'
import type { SessionState } from '../session/state.ts'
import type { Store } from '../store/store.ts'
import type { LoadForkInput, LoadForkResult, NotYet } from './contract.ts'
import { CannotLoad, loading } from './loading.ts'

/** Makes the activity. It waits for the store, and for the newest of the other session's events to be there. */
export function loadForkActivity(store: Store) {
  return function loadFork({ epoch, fork, ...how }: LoadForkInput): Promise<LoadForkResult | NotYet> {
    const { info, client } = Context.current()
    const sessionId = sessionIdOf(info.workflowExecution?.workflowId ?? '')
    return loading(how, () => load(store, client, sessionId, epoch, fork))
  }
}

async function load(store: Store, client: Client, sessionId: string, epoch: string, fork: ForkStart): Promise<LoadForkResult> {
  const refuse = (code: string, reason: string): LoadForkResult => ({ kind: 'refused', code, reason })
  const own = await store.head(sessionId)
  if (own && own.epoch !== epoch) return refuse('session_exists', `There is a session "${sessionId}" already: give the fork another id.`)
  const source = await store.head(fork.from)
  if (!source && !(await isKnown(fork.from, client))) return refuse('session_not_found', `There is no session "${fork.from}" to fork from.`)
  // It is on its way to the store.
  if (!source || source.seq < fork.seq) {
    const has = `The store has session "${fork.from}" up to event ${source?.seq ?? 0}, not yet up to ${fork.seq}, where the fork begins.`
    throw new CannotLoad('archive_unavailable', has)
  }
  let at: Watermark = { seq: 0, digest: '' }
  let state: SessionState | undefined
  while (at.seq < fork.seq) {
    const page = (await store.entries(fork.from, { after: at.seq })).filter((entry) => entry.seq <= fork.seq)
    const last = page.at(-1)
    if (!last || !continues(at, page)) {
      return refuse('checkpoint_not_found', `The events of "${fork.from}" up to ${fork.seq} are not there any more: they were pruned.`)
    }
    const events = page.map(eventOf)
    await store.blobs.copy(
      fork.from,
      sessionId,
      events.flatMap((event) => blobOf(event)?.sha256 ?? []),
    )
    await store.flush(sessionId, epoch, page, { inherited: fork.from })
    state = fold(state, events)
    at = last
  }
  if (!state || at.digest !== fork.digest) {
    return refuse('checkpoint_not_found', `The events of "${fork.from}" up to ${fork.seq} are not those that the fork was to begin with.`)
  }
  return { kind: 'loaded', state: snapshotOf(state), digest: at.digest }
}

function eventOf({ json }: LogEntry): SessionEvent {
  return JSON.parse(json) as SessionEvent
}

/** Whether Temporal knows the session: then what the store lacks is on its way. */
async function isKnown(sessionId: string, client: Client): Promise<boolean> {
  try {
    await client.workflow.getHandle(workflowIdOf(sessionId)).describe()
    return true
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false
    throw error
  }
}
