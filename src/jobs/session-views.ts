// Caches sessions folded up to a watermark, so that a turn folds only new events.
import type { ReadTarget } from '../calls/reads.ts'
import { LRUCache } from 'lru-cache'
import { takeTurns } from '../waiting/in-turn.ts'
import { blobOf } from '../session/blobs.ts'
import type { Logger } from '../agent/tool.ts'
import type { LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { fold } from '../session/fold/fold.ts'
import { addToHookPast, type HookPast, noPast } from '../session/hooks/past.ts'
import {
  addToSlices,
  emptySlices,
  type SliceRules,
  type SlicesFold,
  type SliceSnapshot,
  type SliceValues,
} from '../session/slices/slices.ts'
import type { SessionState } from '../session/state.ts'
import { addToTranscript } from '../session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../session/transcript/transcript.ts'
import type { EventsAlong } from '../calls/jobs.ts'
import { StaleWatermark } from '../calls/errors.ts'
import type { LargeValues } from './large-values.ts'
import { atCheckpoint, newestOf, noMarks, type SnapshotMarks } from './slice-snapshots.ts'

export interface FoldedSession {
  state: SessionState
  transcript: Transcript
  /** The slice values of this build's agent. They are frozen, and callers may keep them. */
  slices: SliceValues
  /** The past that its hooks may still need; empty if this build's agent has no hooks. */
  hooks: HookPast
}

/** Reads the entries above `from` up to the target's watermark. @throws StaleWatermark. */
export type ReadEntries = (target: ReadTarget, from: Watermark) => Promise<LogEntry[]>

export interface SessionViews {
  /** The session at the watermark. It belongs to the cache: do not change it or keep it. @throws StaleWatermark, ArchiveUnavailable. */
  view(target: ReadTarget, along?: EventsAlong): Promise<FoldedSession>
  /**
   * Folds a cached session whose agent has slices up to the target: the next job may be far off. @throws StaleWatermark,
   * ArchiveUnavailable.
   */
  catchUp(target: ReadTarget): Promise<void>
}

const START: Watermark = { seq: 0, digest: '' }
const SESSIONS_KEPT = 200
/** Bytes of JSON of cached sessions, including large values. */
const BYTES_KEPT = 256_000_000

interface CachedView extends FoldedSession {
  at: Watermark
  bytes: number
  fold: SlicesFold
  marks: SnapshotMarks
}

/** What views need from their executor. */
export interface ViewNeeds {
  read: ReadEntries
  values: LargeValues
  /** The slices of an agent; empty for an agent that this build lacks. */
  slicesOf(agent: string): readonly SliceRules[]
  /** Whether an agent has hooks. */
  hasHooks(agent: string): boolean
  /** Receives the values of slices at checkpoints. */
  onSnapshots(sessionId: string, snapshots: SliceSnapshot[]): void
  logger: Logger
}

/** Views over the events that `read` returns. */
export function sessionViews({ read, values, slicesOf, hasHooks, onSnapshots, logger }: ViewNeeds): SessionViews {
  const kept = new LRUCache<string, CachedView>({ max: SESSIONS_KEPT, maxSize: BYTES_KEPT, sizeCalculation: ({ bytes }) => bytes })
  /** One read per session at a time, so that the second uses what the first has read. */
  const inTurn = takeTurns()

  async function grow(key: string, from: CachedView | undefined, target: ReadTarget, along?: EventsAlong): Promise<FoldedSession> {
    const entries = await entriesFor(target, from?.at ?? target.origin ?? START, along)
    const events = entries.map((entry) => JSON.parse(entry.json) as SessionEvent)
    // This comes before the transcript changes, which must not stay half changed if values cannot be read.
    const whole = await values.hydrate(target.sessionId, events)
    const transcript = from?.transcript ?? emptyTranscript()
    for (const event of whole) addToTranscript(transcript, event)
    const state = fold(from?.state, events)
    if (!state) throw new StaleWatermark('the events begin in the middle of the session')
    const slices = from?.fold ?? emptySlices(slicesOf(state.agent))
    let marks = from?.marks ?? noMarks(slices.rules)
    let snapshots: SliceSnapshot[] = []
    for (const [index, event] of whole.entries()) {
      addToSlices(slices, event, ({ error, ...skipped }) =>
        logger.warn({ session: target.sessionId, ...skipped, err: error }, 'a slice skipped an event: its reducer threw'),
      )
      // The store discards them, too, because an outcome newer than the checkpoint may have stayed.
      if (event.type === 'rolled_back') snapshots = snapshots.filter(({ seq }) => seq > event.toSeq)
      const entry = entries[index]
      if (event.type !== 'checkpoint_made' || !entry || slices.rules.length === 0) continue
      const taken = atCheckpoint(slices, marks, event, entry)
      marks = taken.marks
      snapshots.push(...taken.snapshots)
    }
    const hooks = from?.hooks ?? noPast()
    const isHooked = hasHooks(state.agent)
    if (isHooked) for (const event of whole) addToHookPast(hooks, event)
    const read = events.map((event, index) => {
      const copies = copiesOf(event, slices) + (isHooked ? 1 : 0)
      return ((entries[index]?.json.length ?? 0) + valueBytes(event)) * copies
    })
    const bytes = read.reduce((sum, one) => sum + one, from?.bytes ?? 1)
    const grown = { state, transcript, slices: slices.values, hooks, fold: slices, marks, at: target.watermark, bytes }
    kept.set(key, grown)
    // For a session that is folded from its beginning, most were handed over before.
    if (snapshots.length > 0) onSnapshots(target.sessionId, from ? snapshots : newestOf(snapshots))
    return grown
  }

  async function entriesFor(target: ReadTarget, from: Watermark, along?: EventsAlong): Promise<LogEntry[]> {
    const { watermark } = target
    if (from.seq === watermark.seq) {
      if (from.digest !== watermark.digest) throw new StaleWatermark('what was read before differs')
      return []
    }
    const sent = along && entriesAbove(along, from)
    if (sent) return sent
    return read(target, from)
  }

  const keyOf = ({ sessionId, epoch }: ReadTarget): string => `${sessionId}\n${epoch}`

  return {
    catchUp(target) {
      const key = keyOf(target)
      return inTurn(key, async () => {
        const had = kept.peek(key)
        if (had && had.fold.rules.length > 0 && had.at.seq < target.watermark.seq) await grow(key, had, target)
      })
    },
    view(target, along) {
      const key = keyOf(target)
      return inTurn(key, async () => {
        const had = kept.get(key)
        const usable = had && had.at.seq <= target.watermark.seq ? had : undefined
        try {
          return await grow(key, usable, target, along)
        } catch (error) {
          if (!(usable && error instanceof StaleWatermark)) throw error
          // The cached view may come from a rejected task, so read everything again.
          return grow(key, undefined, target, along)
        }
      })
    },
  }
}

/** The entries that are new; undefined if they do not continue what was read. A tool may have read its slices in the meantime. */
function entriesAbove({ from: first, entries }: EventsAlong, from: Watermark): LogEntry[] | undefined {
  if (first.seq === from.seq && first.digest === from.digest) return entries
  const at = entries.findIndex(({ seq, digest }) => seq === from.seq && digest === from.digest)
  return at < 0 ? undefined : entries.slice(at + 1)
}

/** How many copies of the event are kept: slices that read an event keep it alongside the transcript. */
function copiesOf({ type }: SessionEvent, { rules, past }: SlicesFold): number {
  return rules.length > 0 && past.reads.has(type) ? 2 : 1
}

/** Bytes of a restored value. The reference alone cannot tell, because any client can signal one with any number in it. */
function valueBytes(event: SessionEvent): number {
  return Math.min(Math.max(0, blobOf(event)?.bytes ?? 0), BYTES_KEPT)
}
