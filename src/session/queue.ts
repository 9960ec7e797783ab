// The messages that wait in a session: so many that a snapshot of the session still fits with them, and no more are accepted.
import { MAX_CONTEXT_BYTES, MAX_TAGS_BYTES } from './incoming.ts'
import { jsonBytes } from './json.ts'
import { SNAPSHOT_BYTES } from './snapshot.ts'
import type { QueuedMessage, SessionState } from './state.ts'

/** Whether another message can wait in the session's inbox. */
export function hasRoomFor(state: SessionState, messageId: string): boolean {
  return fits(bytesOf(state.inbox) + entryBytes(messageId), state)
}

/** A run that has taken more messages than the state can hold cannot be restarted: what waits comes first. */
export function keepTakenWithinBounds(state: SessionState): void {
  const run = state.current
  if (!run || run.taken.length === 0) return
  if (!run.tookMore && fits(bytesOf(state.inbox) + bytesOf(run.taken), state)) return
  run.taken = []
  run.tookMore = true
}

/** Whether so many bytes fit into what the session's context and tags leave of their common share. They are measured only where they may matter. */
function fits(bytes: number, { context, tags }: SessionState): boolean {
  if (bytes <= SNAPSHOT_BYTES.messages - MAX_CONTEXT_BYTES - MAX_TAGS_BYTES) return true
  return bytes <= SNAPSHOT_BYTES.messages - jsonBytes(context) - jsonBytes(tags)
}

function bytesOf(messages: readonly QueuedMessage[]): number {
  return messages.reduce((sum, { messageId }) => sum + entryBytes(messageId), 0)
}

/** `{"messageId":…,"seq":…},` with a `seq` of ten digits. */
const ENTRY_BYTES = 32

function entryBytes(messageId: string): number {
  return ENTRY_BYTES + textBytes(messageId)
}

/** As `jsonBytes`, or more: this is asked for every message that waits whenever another one comes. */
function textBytes(text: string): number {
  let bytes = 2
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    bytes +=
      code < 0x20 || (code >= 0xd800 && code < 0xe000) ? 6 : code < 0x80 ? (code === 0x22 || code === 0x5c ? 2 : 1) : code < 0x800 ? 2 : 3
  }
  return bytes
}
