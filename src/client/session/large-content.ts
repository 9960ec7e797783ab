// Messages too large for a signal: their content goes to the side store, and the signal refers to it.
import { BLOB_THRESHOLD_BYTES, blobOf, placeholderOf, withBlob } from '../../session/blobs.ts'
import { beginningOf as beginningOfText } from '../../session/beginning.ts'
import { isMedia, labelledText, labelOf, type UserBlock, textOf } from '../../session/content.ts'
import type { SessionEvent } from '../../session/events.ts'
import {
  checkMessage,
  contextProblem,
  isTooLargeToKeep,
  tagsProblem,
  MAX_KEPT_BYTES,
  MAX_MESSAGE_BYTES,
} from '../../session/protocol/incoming.ts'
import { type Json, jsonBytes } from '../../session/json.ts'
import type { MessageSignal } from '../../session/protocol/protocol.ts'
import { type Blob, blobOfJson } from '../../session/blobs.ts'
import { numberText } from '../../session/number-text.ts'
import { sha256Of } from '../../store/blobs.ts'
import { type Store, StoreError } from '../../store/index.ts'
import { storeOr } from '../no-store.ts'
import { InvalidMessageError } from '../errors.ts'
import { inTime } from '../../waiting/in-time.ts'

/** Maximum bytes of JSON of a message's content if there is a side store. */
const MAX_LARGE_MESSAGE_BYTES = 20_000_000
/** Characters of the content of a scheduled message that its session keeps, if the content is in the store. */
const KEPT_CHARACTERS = 300
/** The longest time that content which fits in a signal waits for the store. */
const QUICK_MS = 2_000

/**
 * The message to signal: checked, and with its content in the store if it is large. `beforeStoring`: rejects if no session would receive
 * the message, because nothing must be stored then.
 * @throws InvalidMessageError with the refusal's code, `message_too_large`; StoreError `store_unavailable`. In that case, nothing was
 * recorded.
 */
export async function signalOf(
  store: Store | undefined,
  sessionId: string,
  message: MessageSignal,
  beforeStoring: () => Promise<void>,
): Promise<MessageSignal> {
  const { content } = message
  const { bytes, isLarge } = checkContent(message)
  const isScheduled = message.at !== undefined && isTooLargeToKeep(message)
  if (bytes <= BLOB_THRESHOLD_BYTES && !isScheduled) return message
  const { json, ref } = blobOfJson(content as unknown as Json, beginningOf(content), sha256Of)
  const blob = { json, ref: isScheduled ? { ...ref, preview: beginningOfText(ref.preview, KEPT_CHARACTERS) } : ref }
  const kept = { ...message, content: shownFor(content, blob.ref), blob: blob.ref }
  if (isScheduled) checkContent(kept)
  if (store) await beforeStoring()
  if (isLarge || isScheduled) {
    await keepLarge(store, sessionId, blob, isScheduled)
    return kept
  }
  return (await keptQuickly(store, sessionId, blob)) ? kept : message
}

/**
 * Checks a message, whatever its size. `isLarge`: it does not fit in a signal. @throws InvalidMessageError with the refusal's code,
 * `message_too_large`.
 */
export function checkContent(message: MessageSignal): { bytes: number; isLarge: boolean } {
  requireSize(roughSize(message.content))
  // How much a session keeps of a scheduled message is checked once its content is in the store.
  const { at: _, ...now } = message
  const checked = checkMessage(message.blob ? message : now)
  const isLarge = 'refusal' in checked && checked.refusal.code === 'message_too_large' && !message.blob
  if ('refusal' in checked && !isLarge) throw new InvalidMessageError(checked.refusal.code, checked.refusal.reason)
  const bytes = jsonBytes(message.content)
  requireSize(bytes)
  return { bytes, isLarge }
}

/** @throws InvalidMessageError `message_too_large`. */
function requireSize(bytes: number): void {
  if (bytes <= MAX_LARGE_MESSAGE_BYTES) return
  throw new InvalidMessageError(
    'message_too_large',
    `The message has ${numberText(bytes)} bytes of JSON; the limit is ${numberText(MAX_LARGE_MESSAGE_BYTES)}. Store it elsewhere and send a reference.`,
  )
}

/** The characters of the largest block, without reading them: checking the bytes of a file that cannot be sent would take long. */
function roughSize(content: unknown): number {
  if (!Array.isArray(content)) return 0
  return Math.max(0, ...content.map((block: { source?: { data?: unknown } } | null) => lengthOf(block?.source?.data)))
}

function lengthOf(data: unknown): number {
  return typeof data === 'string' ? data.length : 0
}

/** What an event has in place of the content: a long text begins, and images and documents have their labels. */
function shownFor(content: string | UserBlock[], ref: Blob['ref']): string {
  return typeof content === 'string' || !content.some(isMedia) ? placeholderOf(ref) : ref.preview
}

/** Characters of the text that come before the labels of images and documents, which must not be cut off. */
const TEXT_CHARACTERS = 1_500

function beginningOf(content: string | UserBlock[]): string {
  const text = textOf(content)
  if (typeof content === 'string' || text.length <= TEXT_CHARACTERS) return labelledText(content)
  return [text.slice(0, TEXT_CHARACTERS), '…', ...content.filter(isMedia).map(labelOf)].join('\n')
}

async function keepLarge(store: Store | undefined, sessionId: string, blob: Blob, isScheduled: boolean): Promise<void> {
  const limit = numberText(isScheduled ? MAX_KEPT_BYTES : MAX_MESSAGE_BYTES)
  if (!store) {
    throw new InvalidMessageError(
      'message_too_large',
      `The message has ${numberText(blob.ref.bytes)} bytes of JSON; without a side store, the limit is ${limit}${isScheduled ? ' for a scheduled message' : ''}. Pass the workers' \`postgres\` to Pawl.connect.`,
    )
  }
  try {
    await store.blobs.put(sessionId, blob)
  } catch (cause) {
    const why = cause instanceof StoreError ? cause.message : String(cause)
    throw new StoreError(
      'store_unavailable',
      `The message has ${numberText(blob.ref.bytes)} bytes of JSON; more than ${limit} must go to the side store first, and that failed. ${why} Nothing was recorded. Send it again later.`,
      { cause },
    )
  }
}

/** Whether the store accepted it quickly; if not, the signal carries it. */
async function keptQuickly(store: Store | undefined, sessionId: string, blob: Blob): Promise<boolean> {
  if (!store) return false
  const put = store.blobs.put(sessionId, blob).then(
    () => true,
    () => false,
  )
  return (await inTime(put, QUICK_MS)) ?? false
}

/**
 * Checks a session's context and tags, which it carries for as long as it lives.
 * @throws InvalidMessageError `invalid_context`, `invalid_tags`.
 */
export function checkOpening({ context, tags }: { context?: unknown; tags?: unknown }): void {
  const wrongContext = contextProblem(context)
  if (wrongContext !== undefined) throw new InvalidMessageError('invalid_context', wrongContext)
  const wrongTags = tagsProblem(tags)
  if (wrongTags !== undefined) throw new InvalidMessageError('invalid_tags', wrongTags)
}

/** The events with their large values put back in; a placeholder remains if the store lacks a value or is unreachable. */
export async function withValues(store: Store | undefined, sessionId: string, events: readonly SessionEvent[]): Promise<SessionEvent[]> {
  const refs = events.flatMap((event) => blobOf(event) ?? [])
  if (!store || refs.length === 0) return [...events]
  const texts = await store.blobs.get(sessionId, refs).catch(() => new Map<string, string>())
  return events.map((event) => put(texts, event))
}

/** The same for those of the events whose values are needed: they must be readable. @throws StoreError `no_store`, `store_unavailable`. */
export async function withRestored(
  store: Store | undefined,
  sessionId: string,
  events: readonly SessionEvent[],
  isNeeded: (event: SessionEvent) => boolean,
): Promise<SessionEvent[]> {
  const refs = events.filter(isNeeded).flatMap((event) => blobOf(event) ?? [])
  if (refs.length === 0) return [...events]
  const texts = await storeOr(store).blobs.get(sessionId, refs)
  return events.map((event) => put(texts, event))
}

function put(texts: ReadonlyMap<string, string>, event: SessionEvent): SessionEvent {
  const json = texts.get(blobOf(event)?.sha256 ?? '')
  return json === undefined ? event : withBlob(event, JSON.parse(json) as Json)
}

/** A large value of the session by its sha256: JSON text. Null if it is not, or no longer, stored. @throws StoreError. */
export async function readBlob(store: Store | undefined, sessionId: string, sha256: string): Promise<string | null> {
  return (await storeOr(store).blobs.get(sessionId, [{ sha256, bytes: 0 }])).get(sha256) ?? null
}
