// The messages that wait in a session. No more are accepted than fit into a snapshot of the session.
import { MAX_CONTEXT_BYTES, MAX_TAGS_BYTES } from './incoming.ts'
import { jsonBytes } from './json.ts'
import { SNAPSHOT_BYTES } from './snapshot.ts'
import type { QueuedMessage, SessionState } from './state.ts'

/** Whether another message can wait in the session's inbox. */
export function hasRoomFor(state: SessionState, messageId: string): boolean {
  return fits(state.inboxBytes + bytesOf(messageId), state)
}

/** Adds a message to the inbox. */
export function queue(state: SessionState, message: QueuedMessage): void {
  state.inbox.push(message)
  state.inboxBytes += bytesOf(message.messageId)
  keepTakenWithinBounds(state)
}

/** Replaces the messages in the inbox. */
export function requeue(state: SessionState, messages: QueuedMessage[]): void {
  state.inbox = messages
  state.inboxBytes = sumOf(messages)
}

/** Moves the messages with these ids from the inbox to the run. */
export function take(state: SessionState, messageIds: readonly string[]): void {
  const run = state.current
  if (!run) return
  const takes = new Set(messageIds)
  const taken = state.inbox.filter(({ messageId }) => takes.has(messageId))
  run.taken.push(...taken)
  run.takenBytes += sumOf(taken)
  requeue(
    state,
    state.inbox.filter(({ messageId }) => !takes.has(messageId)),
  )
  keepTakenWithinBounds(state)
}

/** A run that has taken more messages than the state can hold cannot be restarted: waiting messages have priority. */
function keepTakenWithinBounds(state: SessionState): void {
  const run = state.current
  if (!run || run.taken.length === 0) return
  if (!run.tookMore && fits(state.inboxBytes + run.takenBytes, state)) return
  run.taken = []
  run.takenBytes = 0
  run.tookMore = true
}

/** Whether the bytes fit into the share that context and tags leave. These are measured only if they may matter. */
function fits(bytes: number, { context, tags }: SessionState): boolean {
  if (bytes <= SNAPSHOT_BYTES.messages - MAX_CONTEXT_BYTES - MAX_TAGS_BYTES) return true
  return bytes <= SNAPSHOT_BYTES.messages - jsonBytes(context) - jsonBytes(tags)
}

function sumOf(messages: readonly QueuedMessage[]): number {
  return messages.reduce((sum, { messageId }) => sum + bytesOf(messageId), 0)
}

/** `{"messageId":…,"seq":…},` with a `seq` of ten digits; an intent, which hardly any message has, fits into the rest of a snapshot. */
const ENTRY_BYTES = 32

function bytesOf(messageId: string): number {
  return ENTRY_BYTES + jsonBytes(messageId)
}
