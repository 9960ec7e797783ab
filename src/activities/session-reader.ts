// Reads a session's events up to a watermark: event log, then the workflow itself by paged queries, then the store, then earlier
// executions. Keeps what it folded, so that a turn reads only what is new.
import type { Client } from '@temporalio/client'
import { LRUCache } from 'lru-cache'
import { blobOf } from '../session/blobs.ts'
import { continues } from '../session/digest.ts'
import type { LogEntry, SessionEvent, Watermark } from '../session/events.ts'
import { fold } from '../session/fold.ts'
import { entriesOf } from '../session/pages.ts'
import { type EventsPage, QUERIES, workflowIdOf } from '../session/protocol.ts'
import type { SessionState } from '../session/state.ts'
import { addToTranscript, emptyTranscript, type Transcript } from '../session/transcript.ts'
import type { Store } from '../store/store.ts'
import type { BlobShelf } from './blobs.ts'
import { StaleWatermark } from './errors.ts'
import type { EventLog, LogKey } from './needs.ts'

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
}

const START: Watermark = { seq: 0, digest: '' }
const SESSIONS_KEPT = 200
const QUERY_TIMEOUT_MS = 10_000

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
    const { watermark } = target
    if (from.seq === watermark.seq) {
      if (from.digest !== watermark.digest) throw new StaleWatermark('what was read before differs')
      return []
    }
    const logged = await log.read(target, from, watermark)
    if (logged) return logged
    const refilled = await refill(target, from, client, store)
    log.append(target, refilled)
    return refilled
  }

  return { view, entries: (target, from, client) => readEntries(target, from, client) }
}

/** Bytes of a value that was put back in. Anyone can signal a reference, with any number in it. */
function valueBytes(event: SessionEvent): number {
  return Math.min(Math.max(0, blobOf(event)?.bytes ?? 0), BYTES_KEPT)
}

/** Reads the entries above `from` up to the watermark from the executions and the store, newest execution first. */
async function refill(target: ReadTarget, from: Watermark, client: Client, store: Store): Promise<LogEntry[]> {
  const found: LogEntry[][] = []
  let upTo = target.watermark
  let executionId: string | undefined = target.executionId
  while (upTo.seq > from.seq) {
    if (executionId === undefined) throw new StaleWatermark('no execution and no store has the older events')
    const read: { entries: LogEntry[]; base: Watermark; previous?: string } = await queryExecution(
      target.sessionId,
      executionId,
      from,
      upTo,
      client,
    )
    found.unshift(read.entries)
    upTo = read.base.seq > from.seq ? read.base : from
    executionId = read.previous
    if (upTo.seq > from.seq) {
      const stored = await readStored(target.sessionId, from, upTo, store)
      if (stored) {
        found.unshift(stored)
        break
      }
    }
  }
  const entries = found.flat()
  if (!continues(from, entries) || entries.at(-1)?.digest !== target.watermark.digest) {
    throw new StaleWatermark('the execution has other events')
  }
  return entries
}

/** What one execution has of the entries above `from` up to `upTo`. */
async function queryExecution(
  sessionId: string,
  executionId: string,
  from: Watermark,
  upTo: Watermark,
  client: Client,
): Promise<{ entries: LogEntry[]; base: Watermark; previous?: string }> {
  const handle = client.workflow.getHandle(workflowIdOf(sessionId), executionId)
  const entries: LogEntry[] = []
  let after = from.seq
  for (;;) {
    const page = await client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, () =>
      handle.query<EventsPage, [object]>(QUERIES.events, { after }),
    )
    if (!('base' in page)) throw new StaleWatermark('the execution is still loading')
    entries.push(...entriesOf(page).filter((entry) => entry.seq <= upTo.seq))
    after = page.to.seq
    if (!page.more || after >= upTo.seq) {
      const { base, previous } = page
      return { entries, base, ...(previous !== undefined && { previous }) }
    }
  }
}

/** The stored entries above `from` up to `upTo`; undefined if the store is away or has not (all of) them. */
async function readStored(sessionId: string, from: Watermark, upTo: Watermark, store: Store): Promise<LogEntry[] | undefined> {
  const entries: LogEntry[] = []
  try {
    for (let after = from.seq; after < upTo.seq; ) {
      const page = await store.entries(sessionId, { after, limit: 1_000 })
      const last = page.at(-1)
      if (!last) return undefined
      entries.push(...page.filter((entry) => entry.seq <= upTo.seq))
      after = last.seq
    }
  } catch {
    // Earlier executions have the same; the store being away is told of by the flusher.
    return undefined
  }
  return entries.at(-1)?.digest === upTo.digest ? entries : undefined
}
