// The messages that wait in a session: so many that a snapshot of the session still fits with them, and no more are accepted.
import { MAX_CONTEXT_BYTES, MAX_TAGS_BYTES } from './incoming.ts'
import { jsonBytes } from './json.ts'
import { SNAPSHOT_BYTES } from './snapshot.ts'
import type { QueuedMessage, SessionState } from './state.ts'

/** Whether another message can wait in the session's inbox. */
export function hasRoomFor(state: SessionState, messageId: string): boolean {
  return fits(state.inboxBytes + bytesOf(messageId), state)
}

/** The message waits from now on. */
export function queue(state: SessionState, message: QueuedMessage): void {
  state.inbox.push(message)
  state.inboxBytes += bytesOf(message.messageId)
  keepTakenWithinBounds(state)
}

/** These messages wait in place of those before. */
export function requeue(state: SessionState, messages: QueuedMessage[]): void {
  state.inbox = messages
  state.inboxBytes = sumOf(messages)
}

/** The run takes the messages of these ids. */
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

/** A run that has taken more messages than the state can hold cannot be restarted: what waits comes first. */
function keepTakenWithinBounds(state: SessionState): void {
  const run = state.current
  if (!run || run.taken.length === 0) return
  if (!run.tookMore && fits(state.inboxBytes + run.takenBytes, state)) return
  run.taken = []
  run.takenBytes = 0
  run.tookMore = true
}

/** Whether so many bytes fit into what the session's context and tags leave of their common share. They are measured only where they may matter. */
function fits(bytes: number, { context, tags }: SessionState): boolean {
  if (bytes <= SNAPSHOT_BYTES.messages - MAX_CONTEXT_BYTES - MAX_TAGS_BYTES) return true
  return bytes <= SNAPSHOT_BYTES.messages - jsonBytes(context) - jsonBytes(tags)
}

function sumOf(messages: readonly QueuedMessage[]): number {
  return messages.reduce((sum, { messageId }) => sum + bytesOf(messageId), 0)
}

/** `{"messageId":…,"seq":…},` with a `seq` of ten digits. */
const ENTRY_BYTES = 32

function bytesOf(messageId: string): number {
  return ENTRY_BYTES + jsonBytes(messageId)
}
