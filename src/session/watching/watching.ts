// What a watcher of a session sees: its events, each once and in order, and between them the parts of the model's answer before it is
// recorded.
import {
  addDelta,
  compareStreams,
  type DeltaCursor,
  type DeltaPart,
  type DeltaStream,
  endsCall,
  type ModelDelta,
  NO_DELTAS,
  withoutFirst,
} from './deltas.ts'
import type { SessionEvent, SessionStatus } from '../events.ts'

/** One thing that a watcher sees. */
export type WatchItem =
  /** A durable event: each once, in `seq` order. */
  | { type: 'event'; event: SessionEvent }
  /** The model streamed more of its answer. The event `model_completed` of the same turn has the whole answer and replaces the pieces. */
  | { type: 'delta'; run: number; turn: number; attempt: number; delta: ModelDelta }
  /** What this attempt streamed is void: drop its pieces. Another attempt begins, or the call has ended without its answer. */
  | { type: 'reset'; run: number; turn: number; attempt: number }
  /** The session's status after the events so far: the first one, and each change. Sent only if the side store can be read. */
  | { type: 'status'; status: SessionStatus }

/** A stream whose pieces were shown. */
interface ShownStream extends DeltaStream {
  until: number
}

/** What one watcher has seen. */
export interface SessionWatcher {
  /** The last event. */
  readonly seq: number
  /** The session's status as last reported to the watcher. */
  readonly status: SessionStatus | undefined
  /** The watcher no longer needs parts up to here. */
  readonly cursor: DeltaCursor
  /** Accepts the next events. */
  events(events: readonly SessionEvent[]): WatchItem[]
  /** Accepts parts, in order of their streams and positions; parts that arrive before the events they follow are left for later. */
  parts(parts: readonly DeltaPart[]): WatchItem[]
  /** Accepts the session's status after these events. */
  setStatus(status: SessionStatus): WatchItem[]
}

/** A watcher that has seen the events up to `after`. `endedAt`: the newest of those events that ended a model call. */
export function startWatching(after: number, endedAt: number): SessionWatcher {
  let seq = after
  let ended = endedAt
  let shown: ShownStream | undefined
  let status: SessionStatus | undefined

  function event(event: SessionEvent): WatchItem[] {
    seq = event.seq
    if (!endsCall(event)) return [{ type: 'event', event }]
    ended = event.seq
    const isShown = shown !== undefined && !(event.type === 'model_attempt_failed' && isOther(event, shown))
    const void_ = isShown && !(event.type === 'model_completed' && isSame(event, shown)) ? reset() : []
    if (isShown) shown = undefined
    return [...void_, { type: 'event', event }]
  }

  function reset(): WatchItem[] {
    if (!shown) return []
    const { run, turn, attempt } = shown
    return [{ type: 'reset', run, turn, attempt }]
  }

  function take(given: readonly DeltaPart[]): WatchItem[] {
    const parts = given.filter((part) => part.seq >= ended && part.seq <= seq)
    const newest = parts.at(-1)
    if (!newest || (shown && compareStreams(newest, shown) < 0)) return []
    const items: WatchItem[] = []
    if (!shown || compareStreams(newest, shown) > 0) {
      items.push(...reset())
      const { sessionId, seq: of, run, turn, attempt, begunAt } = newest
      shown = { sessionId, seq: of, run, turn, attempt, begunAt, until: 0 }
    }
    const { run, turn, attempt } = shown
    for (const delta of piecesOf(parts, shown)) items.push({ type: 'delta', run, turn, attempt, delta })
    return items
  }

  return {
    get seq() {
      return seq
    },
    get cursor() {
      // An ended stream precedes the event that ended it, so the cursor moves past it.
      return shown && shown.seq >= ended ? shown : { ...NO_DELTAS, seq: ended }
    },
    events: (events) => events.flatMap(event),
    parts: take,
    get status() {
      return status
    },
    setStatus(now) {
      if (now === status) return []
      status = now
      return [{ type: 'status', status }]
    },
  }
}

/** The pieces after those already shown, without gaps. Parts that were written again may overlap. */
function piecesOf(parts: readonly DeltaPart[], shown: ShownStream): ModelDelta[] {
  const pieces: ModelDelta[] = []
  for (const part of parts) {
    if (compareStreams(part, shown) !== 0 || part.from > shown.until || part.until <= shown.until) continue
    for (const piece of withoutFirst(part.pieces, shown.until - part.from)) addDelta(pieces, piece)
    shown.until = part.until
  }
  return pieces
}

function isSame(event: { run: number; turn: number; attempt: number }, shown: DeltaStream | undefined): boolean {
  return event.run === shown?.run && event.turn === shown.turn && event.attempt === shown.attempt
}

/** Whether the failure belongs to another model call, or to an attempt before the one that is shown. */
function isOther({ run, turn, error }: SessionEvent & { type: 'model_attempt_failed' }, shown: DeltaStream | undefined): boolean {
  return run !== shown?.run || turn !== shown.turn || error.attempt < shown.attempt
}
