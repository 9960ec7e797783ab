// The messages queued in a session. It accepts no more than fit into a snapshot of the session.
import { MAX_CONTEXT_BYTES, MAX_TAGS_BYTES } from '../protocol/incoming.ts'
import { jsonBytes } from '../json.ts'
import { SNAPSHOT_BYTES } from './snapshot.ts'
import type { QueuedMessage, SessionState } from '../state.ts'

/** Whether another message can wait in the session's inbox. */
export function hasRoomFor(state: SessionState, message: SizedMessage): boolean {
  return fits(state.inboxBytes + scheduledBytes(state) + bytesOf(message), state)
}

/** Maximum bytes of JSON of a session's scheduled messages, so that they leave room in the inbox. */
const MAX_SCHEDULED_BYTES = 60_000

/** Whether the session can keep another message until it is due. */
export function hasRoomForScheduled(state: SessionState, message: object): boolean {
  const bytes = scheduledBytes(state) + jsonBytes(message)
  return bytes <= MAX_SCHEDULED_BYTES && fits(state.inboxBytes + bytes, state)
}

function scheduledBytes({ scheduled }: SessionState): number {
  return scheduled ? jsonBytes(scheduled) : 0
}

/** Adds a message to the inbox. */
export function queue(state: SessionState, message: QueuedMessage): void {
  state.inbox.push(message)
  state.inboxBytes += bytesOf(message)
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
  const last = taken.findLast(({ deadlineAt }) => deadlineAt !== undefined)
  if (last?.deadlineAt !== undefined) run.deadline = { seq: last.seq ?? 0, at: last.deadlineAt }
  requeue(
    state,
    state.inbox.filter(({ messageId }) => !takes.has(messageId)),
  )
  keepTakenWithinBounds(state)
}

/** A run that has accepted more messages than the state can hold cannot be restarted, because queued messages have priority. */
export function keepTakenWithinBounds(state: SessionState): void {
  const run = state.current
  if (!run || run.taken.length === 0) return
  if (!run.tookMore && fits(state.inboxBytes + scheduledBytes(state) + run.takenBytes, state)) return
  run.taken = []
  run.takenBytes = 0
  run.tookMore = true
}

/** Whether the bytes fit into the space that context, tags, plan and memory leave. Measures these only if they may matter. */
function fits(bytes: number, { context, tags, plan, memory, rules }: SessionState): boolean {
  const ofRules = rules ? jsonBytes(rules) : 0
  const share = SNAPSHOT_BYTES.messages - (plan?.largest ?? 0) - (memory?.largest ?? 0) - ofRules
  if (bytes <= share - MAX_CONTEXT_BYTES - MAX_TAGS_BYTES) return true
  return bytes <= share - jsonBytes(context) - jsonBytes(tags)
}

/** Bytes always reserved for queued messages, however large plan and memory are. */
const MIN_INBOX_BYTES = 8_000

/** The bytes that context, tags and queued messages leave for plan and memory. */
export function roomBeside(state: SessionState): number {
  const { context, tags, inboxBytes, rules = [] } = state
  const waiting = Math.max(inboxBytes + scheduledBytes(state), MIN_INBOX_BYTES)
  return SNAPSHOT_BYTES.messages - jsonBytes(rules) - jsonBytes(context) - jsonBytes(tags) - waiting
}

function sumOf(messages: readonly QueuedMessage[]): number {
  return messages.reduce((sum, message) => sum + bytesOf(message), 0)
}

/** `{"messageId":…,"seq":…},` with a `seq` of ten digits; an intent, which few messages have, fits into the rest of a snapshot. */
const ENTRY_BYTES = 32
/** `"deadlineAt":…,` with 13 digits. */
const DEADLINE_BYTES = 27

/** The parts of a message that count towards its size: its id, and whether it has a deadline. */
interface SizedMessage {
  messageId: string
  deadlineAt?: number
  deadlineMs?: number | undefined
}

function bytesOf({ messageId, deadlineAt, deadlineMs = deadlineAt }: SizedMessage): number {
  return ENTRY_BYTES + (deadlineMs === undefined ? 0 : DEADLINE_BYTES) + jsonBytes(messageId)
}
