// The events of a session, as the page has them: the newest first, so that a long session opens at once; then all, which the page folds;
// then followed.
import type { SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { type SessionView, viewOf } from '../../../src/session/watching/view.ts'
import { answered, api, Refused, streamAt } from '../api/client.ts'
import { AGAIN, wordsFor } from '../loading.ts'
import { isKnown } from './known.ts'
import { type Item, startTimeline, type Timeline } from './timeline.ts'

export interface Past {
  /** All so far; while `isWhole` is false, those that have been read from the beginning. */
  events: readonly SessionEvent[]
  /** What the page shows at the newest event. While `isWhole` is false, maybe only the end. */
  items: readonly Item[]
  /** Undefined while `isWhole` is false. */
  state?: SessionView | undefined
  /** `seq` of the newest event. */
  newest: number
  /** The text that a model writes now. */
  draft: string
  /** All events so far have been read. */
  isWhole: boolean
  /** Why the page does not hear of new events now. */
  interrupted?: string | undefined
  /** Why there is nothing to show. */
  problem?: string
}

export const NOTHING_READ: Past = { events: [], items: [], newest: 0, draft: '', isWhole: false }

interface Delta {
  type: 'delta'
  run: number
  turn: number
  attempt: number
  delta: { type?: string; text?: string }
}

/** A session with more events than this shows its end before the rest is read: that many events. */
const END = 200
const AGAIN_MS = 1_500
const SOON_MS = 1_000
/** The browser connects again within that, for example when the session has closed. */
const CONNECTED_AGAIN_MS = 4_000

/** The state up to an event. */
export function stateAfter(events: readonly SessionEvent[]): SessionView | undefined {
  const folded = fold(undefined, events.filter(isKnown))
  return folded && viewOf(folded)
}

/** All that is known, and how it grows. */
class Knowledge {
  readonly events: SessionEvent[] = []
  readonly timeline: Timeline = startTimeline()
  end: readonly Item[] = []
  newest = 0
  draft = ''
  isWhole = false
  interrupted: string | undefined
  #state: SessionState | undefined
  /** A copy, so that whoever compares sees that it has grown. */
  #copy: readonly SessionEvent[] = []

  add(event: SessionEvent): void {
    if (event.seq <= (this.events.at(-1)?.seq ?? 0)) return
    this.events.push(event)
    this.newest = Math.max(this.newest, event.seq)
    this.timeline.add(event)
    // The fold changes the state in place.
    if (isKnown(event)) this.#state = fold(this.#state, [event])
    if (event.type === 'model_completed' || event.type === 'run_interrupted' || event.type === 'error_entered') this.draft = ''
  }

  past(): Past {
    const { newest, draft, isWhole, interrupted } = this
    if (isWhole && this.#copy.length !== this.events.length) this.#copy = [...this.events]
    const events = isWhole ? this.#copy : this.events
    const items = isWhole || this.end.length === 0 ? this.timeline.items : this.end
    const state = isWhole && this.#state ? viewOf(this.#state) : undefined
    return { events, items, state, newest, draft, isWhole, interrupted }
  }
}

/** Calls `onChange` with what is known, at most once a frame, until the signal aborts. */
export async function follow(session: string, onChange: (past: Past) => void, signal: AbortSignal): Promise<void> {
  const known = new Knowledge()
  let isDue = false
  const changed = (): void => {
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => {
      isDue = false
      if (!signal.aborted) onChange(known.past())
    })
  }
  while (!signal.aborted) {
    try {
      await readAll(session, known, signal, changed)
      known.interrupted = undefined
      changed()
      await watched(session, known, signal, changed)
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Refused && error.status < 500 && error.status !== 429) {
        onChange({ ...known.past(), problem: wordsFor(error) })
        return
      }
      known.interrupted = wordsFor(error, AGAIN)
      changed()
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
}

/**
 * Reads what is missing; of a long session the end first. Stored events come without a worker, which may be missing when a person looks;
 * the stream has newer ones. @throws Refused; TypeError if there is no connection.
 */
async function readAll(session: string, known: Knowledge, signal: AbortSignal, changed: () => void): Promise<void> {
  const path = { session }
  const page = async (query: { after: number; limit?: number; stored?: true }): Promise<SessionEvent[]> => {
    const { items } = await answered(api.GET('/v1/sessions/{session}/events', { params: { path, query }, signal }))
    return items as SessionEvent[]
  }
  const add = (events: readonly SessionEvent[]): void => {
    for (const event of events) known.add(event)
    changed()
  }
  const newestOf = async (): Promise<number> => {
    const report = await answered(api.GET('/v1/sessions/{session}', { params: { path }, signal }))
    const { stored, erasedAt, prunedAt } = report as { stored: { seq: number } | null; erasedAt?: number; prunedAt?: number }
    if (erasedAt !== undefined) throw gone('erased', erasedAt, 'Its contents are gone for good.')
    if (prunedAt !== undefined)
      throw gone('pruned', prunedAt, `Its events were deleted; its messages are in the archive: pawl messages ${session} --archived.`)
    return stored?.seq ?? 0
  }
  if (known.events.length === 0) {
    const first = await page({ after: 0, limit: 2 * END, stored: true }).catch(() => [])
    // Without any, the server says why.
    if (first.length === 0) known.newest = await newestOf()
    const newest = first.length === 2 * END ? await soon(newestOf()) : undefined
    if (newest !== undefined) {
      known.newest = newest
      const timeline = startTimeline()
      for (const event of await page({ after: known.newest - END, limit: END, stored: true })) timeline.add(event)
      known.end = timeline.items
      changed()
    }
    add(first)
  }
  const hasStored = known.events.length > 0
  for (;;) {
    const events = await page({ after: known.events.at(-1)?.seq ?? 0, ...(hasStored && { stored: true as const }) })
    if (events.length === 0) break
    add(events)
  }
  known.isWhole = true
}

/** What it resolves to if that is soon: without a worker, the server takes seconds to say how a session is. */
const soon = <T>(promise: Promise<T>): Promise<T | undefined> =>
  Promise.race([promise, new Promise<undefined>((resolve) => setTimeout(resolve, SOON_MS))])

function gone(how: string, at: number, what: string): Refused {
  return new Refused(410, { code: `session_${how}`, detail: `This session was ${how} on ${new Date(at).toLocaleString()}. ${what}` })
}

type StreamItem = { type: 'event'; event: SessionEvent } | Delta | { type: 'reset' }

/** Follows the session until the stream cannot be resumed. The browser connects again by itself, after the last event that it received. */
function watched(session: string, known: Knowledge, signal: AbortSignal, changed: () => void): Promise<void> {
  const after = known.events.at(-1)?.seq ?? 0
  const source = new EventSource(streamAt(`/v1/sessions/${encodeURIComponent(session)}/watch?after=${after}`))
  const onItem = (item: StreamItem): void => {
    if (item.type === 'event') known.add(item.event)
    else if (item.type === 'delta') known.draft += item.delta.type === 'text' ? (item.delta.text ?? '') : ''
    else known.draft = ''
    changed()
  }
  return new Promise((resolve) => {
    let alarm: ReturnType<typeof setTimeout> | undefined
    const end = (): void => {
      clearTimeout(alarm)
      source.close()
      resolve()
    }
    signal.addEventListener('abort', end)
    source.addEventListener('open', () => {
      clearTimeout(alarm)
      alarm = undefined
      known.interrupted = undefined
      changed()
    })
    source.addEventListener('error', () => {
      // What the model was writing is sent again.
      known.draft = ''
      changed()
      alarm ??= setTimeout(() => {
        known.interrupted = 'The connection is lost. The console connects again …'
        changed()
      }, CONNECTED_AGAIN_MS)
      // The server refused: why, the next reading says.
      if (source.readyState === EventSource.CLOSED) end()
    })
    for (const type of ['event', 'delta', 'reset'])
      source.addEventListener(type, ({ data }: MessageEvent<string>) => onItem(JSON.parse(data) as StreamItem))
  })
}
