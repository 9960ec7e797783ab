// Reads a session's events up to a watermark: from the event log, else from wherever they are (`refill.ts`). Keeps what it folded, so
// that a turn reads only what is new.
import type { Client } from '@temporalio/client'
import { LRUCache } from 'lru-cache'
import { blobOf } from '../session/blobs.ts'
import type { LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { fold } from '../session/fold.ts'
import type { SessionState } from '../session/state.ts'
import { addToTranscript, emptyTranscript, type Transcript } from '../session/transcript.ts'
import type { Store } from '../store/store.ts'
import type { BlobShelf } from './blobs.ts'
import { StaleWatermark } from './errors.ts'
import type { EventLog, LogKey } from './needs.ts'
import { refill } from './refill.ts'

/** A session as its events up to a watermark give it. */
export interface SessionView {
  state: SessionState
  transcript: Transcript
}

/** Which events: of whom, up to where, and which execution can be asked. */
export interface ReadTarget extends LogKey {
  executionId: string
  watermark: Watermark
  /** Nothing before it can be read; absent: all can. */
  origin?: Watermark
}

/** Reads sessions. */
export interface SessionReader {
  /** The session at the watermark. It is the reader's own: do not change it, do not keep it. @throws StaleWatermark, ArchiveUnavailable. */
  view(target: ReadTarget, client: Client): Promise<SessionView>
  /** The entries above `from` up to the watermark. @throws StaleWatermark. */
  entries(target: ReadTarget, from: Watermark, client: Client): Promise<LogEntry[]>
  /** The same in parts that one transaction can write, oldest first, whatever their number. @throws StaleWatermark. */
  parts(target: ReadTarget, from: Watermark, client: Client): AsyncGenerator<LogEntry[]>
}

const START: Watermark = { seq: 0, digest: '' }
const SESSIONS_KEPT = 200

/** A part is written within the time that a statement has, also by a Postgres that is busy. */
const PART_EVENTS = 1_000
const PART_BYTES = 2_000_000

/** JSON of kept sessions, large values included, in bytes. */
const BYTES_KEPT = 256_000_000

interface Kept extends SessionView {
  at: Watermark
  bytes: number
}

/** A reader over this process's event log. */
export function sessionReader(log: EventLog, store: Store, shelf: BlobShelf): SessionReader {
  const kept = new LRUCache<string, Kept>({ max: SESSIONS_KEPT, maxSize: BYTES_KEPT, sizeCalculation: ({ bytes }) => bytes })
  const reading = new Map<string, Promise<unknown>>()

  /** One read a session at a time: the second one finds what the first has read. */
  async function inTurn<T>(key: string, read: () => Promise<T>): Promise<T> {
    const before = reading.get(key)
    const mine = (async () => {
      await before?.catch(() => undefined)
      return read()
    })()
    reading.set(key, mine)
    try {
      return await mine
    } finally {
      if (reading.get(key) === mine) reading.delete(key)
    }
  }

  async function view(target: ReadTarget, client: Client): Promise<SessionView> {
    const key = `${target.sessionId}\n${target.epoch}`
    return inTurn(key, async () => {
      const had = kept.get(key)
      const usable = had && had.at.seq <= target.watermark.seq ? had : undefined
      try {
        return keep(key, await grow(usable, target, client))
      } catch (error) {
        if (!(usable && error instanceof StaleWatermark)) throw error
        // What was kept may be of a task that was rejected: read all anew.
        return keep(key, await grow(undefined, target, client))
      }
    })
  }

  function keep(key: string, view: Kept): SessionView {
    kept.set(key, view)
    return view
  }

  async function grow(from: Kept | undefined, target: ReadTarget, client: Client): Promise<Kept> {
    const entries = await readEntries(target, from?.at ?? target.origin ?? START, client)
    const events = entries.map((entry) => JSON.parse(entry.json) as SessionEvent)
    // Before the transcript grows: it must not be left half grown when values cannot be had.
    const whole = await shelf.hydrate(target.sessionId, events)
    const transcript = from?.transcript ?? emptyTranscript()
    for (const event of whole) addToTranscript(transcript, event)
    const state = fold(from?.state, events)
    if (!state) throw new StaleWatermark('the events begin in the middle of the session')
    const read = events.map((event, index) => (entries[index]?.json.length ?? 0) + valueBytes(event))
    return { state, transcript, at: target.watermark, bytes: read.reduce((sum, bytes) => sum + bytes, from?.bytes ?? 1) }
  }

  async function readEntries(target: ReadTarget, from: Watermark, client: Client): Promise<LogEntry[]> {
    const logged = await readLog(target, from)
    if (logged) return logged
    const refilled: LogEntry[] = []
    for await (const entries of refill(target, from, client, store)) for (const entry of entries) refilled.push(entry)
    log.append(target, refilled)
    return refilled
  }

  async function readLog(target: ReadTarget, from: Watermark): Promise<LogEntry[] | undefined> {
    const { watermark } = target
    if (from.seq !== watermark.seq) return log.read(target, from, watermark)
    if (from.digest !== watermark.digest) throw new StaleWatermark('what was read before differs')
    return []
  }

  async function* parts(target: ReadTarget, from: Watermark, client: Client): AsyncGenerator<LogEntry[]> {
    const logged = await readLog(target, from)
    if (logged) return yield* cut(logged)
    let newest: LogEntry[] = []
    for await (const entries of refill(target, from, client, store)) {
      yield* cut(entries)
      newest = entries
    }
    // What is older is stored now, and read again by nobody who only flushes.
    log.append(target, newest)
  }

  return { view, entries: readEntries, parts }
}

/** Bytes of a value that was put back in. Anyone can signal a reference, with any number in it. */
function valueBytes(event: SessionEvent): number {
  return Math.min(Math.max(0, blobOf(event)?.bytes ?? 0), BYTES_KEPT)
}

/** Cuts entries into parts of at most so many events and so much JSON, or of one event. */
function* cut(entries: readonly LogEntry[]): Generator<LogEntry[]> {
  let part: LogEntry[] = []
  let bytes = 0
  for (const entry of entries) {
    if (part.length === PART_EVENTS || (part.length > 0 && bytes + entry.json.length > PART_BYTES)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(entry)
    bytes += entry.json.length
  }
  if (part.length > 0) yield part
}
