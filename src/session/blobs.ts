// Values too large for history: events carry a reference and a preview, never a silently shortened value.
import type { UserBlock } from './content.ts'
import type { BlobRef, ResultContent } from './call-facts.ts'
import type { EventOf, SessionEvent } from './events.ts'
import type { Json } from './json.ts'
import { beginningOf } from './beginning.ts'
import { withBlocks } from './provider-blocks.ts'

/** Characters of the preview in events. */
const PREVIEW_CHARACTERS = 2_000

/** A stored value. `json` is escaped to ASCII if Postgres could not hold it (NUL bytes, lone surrogates). */
export interface Blob {
  ref: BlobRef
  json: string
}

/**
 * Creates a blob from a value. `begins`: the value's text as people and models read it. `sha256`: computes the hex digest of UTF-8 text.
 */
export function blobOfJson(value: Json, begins: string, sha256: (text: string) => string): Blob {
  const json = JSON.stringify(value)
  return {
    json,
    ref: { sha256: sha256(json), bytes: new TextEncoder().encode(json).length, preview: beginningOf(begins, PREVIEW_CHARACTERS) },
  }
}

/** Values with more bytes of JSON than this go to the side store if it is available. */
export const BLOB_THRESHOLD_BYTES = 128_000

/** The placeholder for a value that cannot be loaded. */
export function placeholderOf({ bytes, sha256, preview }: BlobRef): string {
  return `[A value of ${bytes} bytes, sha256 ${sha256}; it begins:]\n${preview}`
}

/** The reference that an event carries; undefined if it carries none. */
export function blobOf(event: SessionEvent): BlobRef | undefined {
  return 'blob' in event ? event.blob : undefined
}

/** The event with its value restored, for building a transcript; `value` is the parsed blob. */
export function withBlob(event: SessionEvent, value: Json): SessionEvent {
  if (event.type === 'message_received') {
    const { blob: _, ...rest } = event
    return { ...rest, content: value as unknown as string | UserBlock[] } as EventOf<'message_received'>
  }
  if (event.type === 'model_completed') {
    const { blob: _, ...rest } = event
    return { ...rest, content: withBlocks(event.content, value) }
  }
  if (event.type === 'tool_completed' || event.type === 'tool_resolved') {
    const { blob: _, ...rest } = event
    return { ...rest, ...(value as { value?: Json; content?: ResultContent }) } as SessionEvent
  }
  return event
}
