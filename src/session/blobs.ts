// Values too large for history: events carry a reference, and how the value begins, never a silent cut.
import type { UserBlock } from './content.ts'
import type { BlobRef, EventOf, ResultContent, SessionEvent } from './events.ts'
import type { Json } from './json.ts'

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
