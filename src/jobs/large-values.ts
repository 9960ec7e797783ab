// An executor's access to values too large for history: an in-memory cache, and the store through the orchestrator.
import { sha256Hex } from '../agent/sha256.ts'
import { PIECE_BYTES, type ValueSource, type ValueStore } from '../calls/reads.ts'
import { LRUCache } from 'lru-cache'
import type { Logger } from '../agent/tool.ts'
import { blobOf, type Blob, placeholderOf, withBlob } from '../session/blobs.ts'
import type { BlobRef } from '../session/call-facts.ts'
import type { SessionEvent } from '../session/events.ts'
import { checkMessage } from '../session/protocol/incoming.ts'
import type { Json } from '../session/json.ts'
import { unlessAborted } from '../waiting/unless-aborted.ts'
import { defined } from '../session/defined.ts'

/** Size of the cache, in characters of JSON. */
const CACHED_CHARACTERS = 64_000_000

/** How long a value may wait for the store, and where it comes from. */
export interface Patience extends ValueSource {
  /** Ends the wait. */
  signal: AbortSignal
}

export interface LargeValues {
  /** Stores the value; returns the reference, or undefined if that failed. Never rejects. */
  keep(sessionId: string, blob: Blob, patience: Patience): Promise<BlobRef | undefined>
  /** The events with their values restored; a value that is permanently lost is replaced by a note. @throws ArchiveUnavailable. */
  hydrate(sessionId: string, events: readonly SessionEvent[]): Promise<SessionEvent[]>
}

export function largeValues(store: ValueStore, logger: Logger): LargeValues {
  const cached = new LRUCache<string, string>({ maxSize: CACHED_CHARACTERS, sizeCalculation: (json) => json.length })
  const keyOf = (sessionId: string, sha256: string): string => `${sessionId}\n${sha256}`

  async function keep(sessionId: string, { ref, json }: Blob, { signal, ...from }: Patience): Promise<BlobRef | undefined> {
    try {
      const isStored = await unlessAborted(signal, store.put(sessionId, ref, new TextEncoder().encode(json), from))
      if (!isStored) return undefined
      cached.set(keyOf(sessionId, ref.sha256), json)
      return ref
    } catch {
      return undefined
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
      logger.warn({ session: sessionId, seq: event.seq, sha256: ref.sha256 }, 'a large value is lost: the model sees only its beginning')
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
    const found = (sha256: string, json: string): void => {
      texts.set(sha256, json)
      cached.set(keyOf(sessionId, sha256), json)
    }
    const small = missing.filter(({ bytes }) => bytes <= PIECE_BYTES)
    if (small.length > 0) for (const [sha256, json] of await store.get(sessionId, small)) found(sha256, json)
    for (const sha256 of new Set(missing.filter(({ bytes }) => bytes > PIECE_BYTES).map((ref) => ref.sha256))) {
      const json = await inPieces(sessionId, sha256)
      if (json !== undefined) found(sha256, json)
    }
    return texts
  }

  /** A large value, piece by piece. Only here, where it is complete, can its digest be checked. */
  async function inPieces(sessionId: string, sha256: string): Promise<string | undefined> {
    const pieces: Buffer[] = []
    for (let from = 0; ; from += PIECE_BYTES) {
      const piece = await store.piece(sessionId, sha256, from)
      if (piece === undefined) return undefined
      pieces.push(Buffer.from(piece, 'latin1'))
      if (piece.length < PIECE_BYTES) break
    }
    const json = Buffer.concat(pieces).toString('utf8')
    return sha256Hex(json) === sha256 ? json : undefined
  }

  return { keep, hydrate }
}

/** The event with its value, if the value is valid for such an event. Any client may signal a reference to any value. */
function put(event: SessionEvent, value: Json): SessionEvent | undefined {
  if (event.type === 'message_received') {
    const checked = checkMessage({ content: value })
    return 'message' in checked || checked.refusal.code === 'message_too_large' ? withBlob(event, value) : undefined
  }
  if (event.type === 'model_completed') return Array.isArray(value) ? withBlob(event, value) : undefined
  if (value === null || typeof value !== 'object' || Array.isArray(value) || value.value === undefined) return undefined
  const { value: result, content } = value
  return withBlob(event, { value: result, ...defined({ content }) })
}
