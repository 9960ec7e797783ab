// Values too large for history: events carry a reference, and how the value begins, never a silent cut.
import type { UserBlock } from './content.ts'
import type { BlobRef, EventOf, ResultContent, SessionEvent } from './events.ts'
import type { Json } from './json.ts'

/** Characters of a value's beginning that are part of events. */
const PREVIEW_CHARACTERS = 2_000

/** A value as it is kept. `json` is plain ASCII where Postgres could not hold it: JSON escapes NUL bytes and lone surrogates. */
export interface Blob {
  ref: BlobRef
  json: string
}

/** The value as a blob; `begins` is its text, as people and models read it, `sha256` the hex digest of UTF-8 text. */
export function blobOfJson(value: Json, begins: string, sha256: (text: string) => string): Blob {
  const json = JSON.stringify(value)
  return { json, ref: { sha256: sha256(json), bytes: new TextEncoder().encode(json).length, preview: beginningOf(begins) } }
}

/** How a text begins; a pair of surrogates is not cut in two. */
function beginningOf(text: string): string {
  const cut = text.slice(0, PREVIEW_CHARACTERS)
  return cut.length < text.length ? cut.replace(/[\ud800-\udbff]$/, '') : cut
}

/** Bytes of JSON from which a value goes to the side store where it can. */
export const BLOB_THRESHOLD_BYTES = 128_000

/** What is shown of a value that lies elsewhere, where the value itself cannot be had. */
export function placeholderOf({ bytes, sha256, preview }: BlobRef): string {
  return `[A value of ${bytes} bytes, sha256 ${sha256}; it begins:]\n${preview}`
}

/** The reference that an event carries, if it does. */
export function blobOf(event: SessionEvent): BlobRef | undefined {
  return 'blob' in event ? event.blob : undefined
}

/** The event with the value put back in, for whoever makes a transcript of it; `value` is the parsed blob. */
export function withBlob(event: SessionEvent, value: Json): SessionEvent {
  if (event.type === 'message_received') {
    const { blob: _, ...rest } = event
    return { ...rest, content: value as unknown as string | UserBlock[] } as EventOf<'message_received'>
  }
  if (event.type === 'tool_completed' || event.type === 'tool_resolved') {
    const { blob: _, ...rest } = event
    return { ...rest, ...(value as { value?: Json; content?: ResultContent }) } as SessionEvent
  }
  return event
}
