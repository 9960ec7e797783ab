// Watches a session together with the sessions that answer its agent calls, directly or further down: each from the moment when its call asks
// it until it has told its caller how its run ended.
import { callsAtWork } from '../../session/agents/agent-calls.ts'
import { defined } from '../../session/defined.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { SessionState } from '../../session/state.ts'
import type { WatchItem } from '../../session/watching/watching.ts'
import { inTime } from '../../waiting/in-time.ts'
import { limitedPlaces } from '../../waiting/places.ts'
import type { TreeItem } from '../types.ts'
import { type SessionSource, STORE_PATIENCE_MS } from './events.ts'
import { startWakeup, watchBatches } from './follow.ts'

/** Where a watch begins: after this event, or after one for each session that is being watched. */
export type TreeStart = number | Record<string, number>

/** How many sessions of a tree are read at a time. The others follow once one of these has told its caller how it ended. */
export const MAX_SESSIONS_WATCHED = 50

/** One session of the tree. */
interface Branch {
  sessionId: string
  after: number
  caller?: { sessionId: string; callId: string }
  /** Ends the watch of this session. */
  stop: AbortController
}

/** What one session's watch has delivered, until it is taken. */
interface Delivery {
  branch: Branch
  items: WatchItem[]
  taken(): void
}

export interface TreeWatchNeeds {
  source: SessionSource
  start: TreeStart
  signal: AbortSignal
  /** Reads the session's state, for calls that are already open when the watch begins. */
  readState(): Promise<SessionState>
}

/** See `SessionHandle.watch`. */
export async function* watchTree({ source, start, signal, readState }: TreeWatchNeeds): AsyncGenerator<TreeItem[]> {
  const root = source.sessionId
  const stop = new AbortController()
  const until = AbortSignal.any([signal, stop.signal])
  const wakeup = startWakeup(until)
  const branches = new Map<string, Branch>()
  /** The last event that was seen of each session. A child may be asked again. */
  const seen = new Map<string, number>(typeof start === 'number' ? [[root, start]] : Object.entries(start))
  /** Sessions to be read as soon as there is room. */
  const later = new Map<string, Branch['caller']>()
  const deliveries: Delivery[] = []
  const takePlace = limitedPlaces(HELD_AT_ONCE)
  let failure: { error: unknown } | undefined

  function follow(sessionId: string, caller?: Branch['caller']): void {
    const known = branches.get(sessionId)
    if (known) {
      if (caller) known.caller = caller
      return
    }
    if (branches.size >= MAX_SESSIONS_WATCHED) {
      later.set(sessionId, caller ?? later.get(sessionId))
      return
    }
    const branch: Branch = { sessionId, after: seen.get(sessionId) ?? 0, ...defined({ caller }), stop: new AbortController() }
    branches.set(sessionId, branch)
    void deliver(branch).catch((error: unknown) => {
      failure ??= { error }
      wakeup.wake()
    })
  }

  async function deliver(branch: Branch): Promise<void> {
    const { sessionId, after } = branch
    const ends = AbortSignal.any([until, branch.stop.signal])
    let release = (): void => undefined
    ends.addEventListener('abort', () => release())
    for await (const items of watchBatches({ ...source, sessionId }, after, ends, sessionId === root ? undefined : takePlace)) {
      // The next batch is read once this one was taken, as by a watch of one session.
      await new Promise<void>((taken) => {
        release = taken
        deliveries.push({ branch, items, taken })
        wakeup.wake()
      })
      if (ends.aborted) return
    }
  }

  /** Follows the children that a session asks, and no longer the session itself once its caller knows how it ended. */
  function note({ sessionId, stop: end }: Branch, event: SessionEvent): void {
    seen.set(sessionId, event.seq)
    if (event.type === 'answer_requested' && event.child) follow(event.child.session, { sessionId, callId: event.callId })
    if (sessionId === root || (event.type !== 'caller_told' && event.type !== 'session_closed')) return
    branches.delete(sessionId)
    end.abort()
    const [next] = later
    if (!next) return
    later.delete(next[0])
    follow(...next)
  }

  try {
    follow(root)
    for (const one of await openAt(start, readState)) follow(one.sessionId, one.caller)
    for (const sessionId of [...seen.keys()]) if (sessionId.startsWith(`${root}/`)) follow(sessionId)
    while (!until.aborted) {
      if (failure) throw failure.error
      const delivery = deliveries.shift()
      if (!delivery) {
        await wakeup.wait(LONGEST_WAIT_MS)
        continue
      }
      const { branch, items, taken } = delivery
      const { sessionId, caller } = branch
      for (const item of items) if (item.type === 'event') note(branch, item.event)
      yield items.map((item) => ({ ...item, sessionId, ...defined({ caller }) }))
      taken()
      if (sessionId === root && items.some((item) => item.type === 'event' && item.event.type === 'session_closed')) return
    }
  } finally {
    stop.abort()
    wakeup.close()
  }
}

/** A tree may have hundreds of children with much to read. So many of them hold a batch at a time, besides the session itself. */
const HELD_AT_ONCE = 4

/** Only a bound: each delivery ends the wait. */
const LONGEST_WAIT_MS = 60_000

/** The children that are at work where the watch begins. A watch that resumes names them itself. */
async function openAt(start: TreeStart, readState: () => Promise<SessionState>): Promise<Pick<Branch, 'sessionId' | 'caller'>[]> {
  const isWhole = start === 0 || (typeof start === 'object' && Object.keys(start).length <= 1)
  if (isWhole) return []
  const state = await inTime(
    readState().catch(() => undefined),
    STORE_PATIENCE_MS,
  )
  if (!state) return []
  const from = typeof start === 'number' ? start : (start[state.sessionId] ?? 0)
  const open = callsAtWork(state).filter(({ seq, child }) => seq <= from && (typeof start === 'number' || child.session in start))
  return open.map(({ child, callId }) => ({ sessionId: child.session, caller: { sessionId: state.sessionId, callId } }))
}
