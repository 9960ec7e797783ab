// Values too large for history, as a worker process keeps and reads them: in the store, and for a while in memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Logger } from '../agent/tool.ts'
import { blobOf, placeholderOf, withBlob } from '../session/blobs.ts'
import { PawlError } from '../session/errors.ts'
import type { BlobRef, SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { checkMessage } from '../session/incoming.ts'
import type { Blob } from '../store/blobs.ts'
import type { Store } from '../store/store.ts'
import { unlessAborted } from './unless-aborted.ts'

/** JSON that is kept in memory, in characters. */
const CACHED_CHARACTERS = 64_000_000
/** How long a value that could also go without waits for the store, and how long none does after a wait in vain. */
const QUICK_MS = 2_000
const NOT_AGAIN_FOR_MS = 10_000
const RETRY_MS = 250
/** How long a model call waits for values before it says that they cannot be had. */
const READ_MS = 3_000

/** A value that events refer to cannot be read now. */
export class ArchiveUnavailable extends PawlError {
  override readonly name = 'ArchiveUnavailable'

  constructor(options: { cause: unknown }) {
    super(
      'archive_unavailable',
      'The session has values that lie in the side store, which cannot be reached now: it goes on by itself when the store is back.',
      options,
    )
  }
}

/** How long a value may wait for the store. */
export interface Patience {
  /** Until then (milliseconds since 1970) it is tried again and again; absent: one short try. */
  until?: number
  /** Ends it at once. */
  signal: AbortSignal
}

/** The large values of a process. */
export interface BlobShelf {
  /** Brings the value to the store; gives the reference, or undefined if the store could not be had. Never rejects. */
  keep(sessionId: string, blob: Blob, patience: Patience): Promise<BlobRef | undefined>
  /** The events with their values put back in; what is gone for good is said in its place. @throws ArchiveUnavailable. */
  hydrate(sessionId: string, events: readonly SessionEvent[]): Promise<SessionEvent[]>
}

/** The shelf of this process over the store. */
export function blobShelf({ blobs }: Pick<Store, 'blobs'>, logger: Logger): BlobShelf {
  const cached = new LRUCache<string, string>({ maxSize: CACHED_CHARACTERS, sizeCalculation: (json) => json.length })
  const keyOf = (sessionId: string, sha256: string): string => `${sessionId}\n${sha256}`
  let vainUntil = 0

  async function keep(sessionId: string, blob: Blob, { until, signal }: Patience): Promise<BlobRef | undefined> {
    if (until === undefined && Date.now() < vainUntil) return undefined
    for (;;) {
      try {
        const quickly = until === undefined ? AbortSignal.timeout(QUICK_MS) : AbortSignal.timeout(Math.max(0, until - Date.now()))
        await unlessAborted(AbortSignal.any([signal, quickly]), blobs.put(sessionId, blob))
        cached.set(keyOf(sessionId, blob.ref.sha256), blob.json)
        return blob.ref
      } catch (err) {
        const isOver = until === undefined || signal.aborted || Date.now() + RETRY_MS >= until
        if (isOver) {
          logger.warn({ err, sessionId, bytes: blob.ref.bytes }, 'a large value could not be brought to the side store')
          vainUntil = Date.now() + NOT_AGAIN_FOR_MS
          return undefined
        }
        await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined)
      }
    }
  }

  async function hydrate(sessionId: string, events: readonly SessionEvent[]): Promise<SessionEvent[]> {
    const refs = events.flatMap((event) => blobOf(event) ?? [])
    if (refs.length === 0) return [...events]
    const texts = await read(sessionId, refs)
    return events.map((event) => {
      const ref = blobOf(event)
      if (!ref) return event
      const json = texts.get(ref.sha256)
      const whole = json === undefined ? undefined : put(event, JSON.parse(json) as Json)
      if (whole) return whole
      logger.warn({ sessionId, seq: event.seq, sha256: ref.sha256 }, 'a large value is gone: the model is told how it began')
      return event.type === 'message_received' ? { ...event, content: placeholderOf(ref) } : event
    })
  }

  async function read(sessionId: string, refs: readonly BlobRef[]): Promise<Map<string, string>> {
    const texts = new Map<string, string>()
    for (const { sha256 } of refs) {
      const json = cached.get(keyOf(sessionId, sha256))
      if (json !== undefined) texts.set(sha256, json)
    }
    const missing = refs.filter(({ sha256 }) => !texts.has(sha256))
    if (missing.length === 0) return texts
    for (const [sha256, json] of await readStored(sessionId, missing)) {
      texts.set(sha256, json)
      cached.set(keyOf(sessionId, sha256), json)
    }
    return texts
  }

  async function readStored(sessionId: string, refs: readonly BlobRef[]): Promise<Map<string, string>> {
    for (const giveUpAt = Date.now() + READ_MS; ; ) {
      try {
        return await blobs.get(sessionId, refs)
      } catch (cause) {
        if (Date.now() + RETRY_MS >= giveUpAt) throw new ArchiveUnavailable({ cause })
        await sleep(RETRY_MS)
      }
    }
  }

  return { keep, hydrate }
}

/** The event with its value, if that is what such an event may carry: anyone may signal a reference to any value. */
function put(event: SessionEvent, value: Json): SessionEvent | undefined {
  if (event.type === 'message_received') {
    const checked = checkMessage({ content: value })
    return 'message' in checked || checked.refusal.code === 'message_too_large' ? withBlob(event, value) : undefined
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value) || value.value === undefined) return undefined
  const { value: result, content } = value
  return withBlob(event, { value: result, ...(content !== undefined && { content }) })
}
