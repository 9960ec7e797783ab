// The projection of `messages`: made by the transcript's fold, so that rows cannot differ from what the model sees.
import type { ContentBlock } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import { answerIdOf, resultsIdOf } from '../../session/ids.ts'
import type { BlobRef } from '../../session/call-facts.ts'
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import { addToTranscript } from '../../session/transcript/adding.ts'
import { emptyTranscript, newestOf, type Transcript } from '../../session/transcript/transcript.ts'
import type { DELIVERED, MESSAGES, RowOf, TAKEN } from '../postgres/tables.ts'
import { jsonText, safeKey, sanitiser } from '../postgres/sanitise.ts'

/** The state of the projection. */
export interface MessageProjection {
  /** The newest turn while results of its calls are missing. */
  openTurn: OpenTurn | null
  /** The transcript never holds messages here, because they become rows at once. */
  transcript: Transcript
  /** Results in `blobs`, by call. */
  blobs: Map<string, BlobRef>
}

/** A turn with missing tool results, by its `model_completed`. */
export interface OpenTurn {
  seq: number
  run: number
  turn: number
}

/** The rows of messages that events make. */
export interface MessageRows {
  messages: NewMessageRow[]
  /** Messages that a turn of the segment took, but that were received before the segment. */
  taken: RowOf<typeof TAKEN>[]
  /** Messages that are delivered now, and were scheduled before the segment: their rows until now. */
  delivered: RowOf<typeof DELIVERED>[]
}

type NewMessageRow = RowOf<typeof MESSAGES>

/** An empty projection. */
export function newMessageProjection(): MessageProjection {
  return { openTurn: null, transcript: emptyTranscript(), blobs: new Map() }
}

/** Applies one event to the rows; the projection is changed in place. */
export function projectMessages(projection: MessageProjection, rows: MessageRows, event: SessionEvent): void {
  if (event.type === 'message_received' || event.type === 'message_scheduled') {
    if (event.type === 'message_received' && event.dueAt !== undefined) removeScheduled(rows, event)
    rows.messages.push(userRow(event))
    return
  }
  if (event.type === 'turn_started') takeMessages(rows, event)
  rows.messages.push(...growTranscript(projection, event))
}

/** Adds an event to the transcript; returns the rows of the messages that it made. */
export function growTranscript(projection: MessageProjection, event: SessionEvent): NewMessageRow[] {
  // User messages are rows before a run takes them, so the transcript does not include them.
  if (event.type === 'message_received') return []
  const { transcript, blobs } = projection
  const openTurn = turnOpenedBy(event) ?? projection.openTurn
  noteBlob(blobs, event)
  addToTranscript(transcript, stackSafe(event))
  const made = transcript.messages.splice(0)
  transcript.seqs.length = 0
  transcript.newestRun.from = 0
  projection.openTurn = transcript.open === null ? null : openTurn
  if (!openTurn) return []
  const { run, turn, seq: position } = openTurn
  const blobOf = (request: string): BlobRef | undefined => blobs.get(newestOf(transcript, request))
  const isAnswer = event.type === 'model_completed'
  return made.map((message) =>
    messageRow(event, {
      messageId: isAnswer ? answerIdOf({ run, turn }) : resultsIdOf({ run, turn }),
      kind: isAnswer ? 'assistant' : 'tool_results',
      place: { run, turn, position, ordinal: isAnswer ? 0 : 1 },
      message,
      ...callsIn(message.content, blobOf),
      ...(isAnswer && event.blob && { blobs: [storedBlob(null, event.blob)] }),
    }),
  )
}

/** The turn whose calls the event opens. */
function turnOpenedBy(event: SessionEvent): OpenTurn | undefined {
  if (event.type === 'model_completed') return event
  if (event.type !== 'recovery_started' || event.strategy !== 'selective') return undefined
  const { run = 0, turn = 0, toSeq: seq = 0 } = event
  return { run, turn, seq }
}

/** Notes the reference to a call's result, even if the call replays another's. */
function noteBlob(blobs: Map<string, BlobRef>, event: SessionEvent): void {
  if (event.type !== 'tool_completed' && event.type !== 'tool_resolved') return
  const blob = event.blob ?? (event.type === 'tool_completed' && event.replayOf !== undefined ? blobs.get(event.replayOf) : undefined)
  if (blob) blobs.set(event.callId, blob)
}

/** The transcript uses the built-in JSON.stringify, which fails at several thousand levels of nesting. */
function stackSafe(event: SessionEvent): SessionEvent {
  if (event.type !== 'tool_completed' || event.content !== undefined || event.value === undefined) return event
  try {
    JSON.stringify(event.value)
    return event
  } catch {
    return { ...event, content: jsonText(event.value) }
  }
}

/** The tool calls that blocks request or answer, and which of the answers are in `blobs`. */
function callsIn(
  content: string | readonly ContentBlock[],
  blobOf: (request: string) => BlobRef | undefined,
): Pick<NewMessage, 'callIds' | 'blobs'> {
  const callIds: string[] = []
  const blobs: StoredBlob[] = []
  for (const [block, one] of typeof content === 'string' ? [] : content.entries()) {
    if (one.type === 'tool_use') callIds.push(one.id)
    if (one.type !== 'tool_result') continue
    callIds.push(one.tool_use_id)
    const blob = blobOf(one.tool_use_id)
    if (blob) blobs.push(storedBlob(block, blob))
  }
  return { ...(callIds.length > 0 && { callIds }), ...(blobs.length > 0 && { blobs }) }
}

/**
 * An entry of the column `blobs`. `block`: index of the content block; null for the whole content, or for the own blocks of the provider in an
 * answer.
 */
interface StoredBlob {
  block: number | null
  sha256: string
  bytes: number
}

const storedBlob = (block: number | null, { sha256, bytes }: BlobRef): StoredBlob => ({ block, sha256, bytes })

function removeScheduled(rows: MessageRows, { messageId }: EventOf<'message_received'>): void {
  const message_id = safeKey(messageId)
  const at = rows.messages.findIndex((row) => row.kind === 'scheduled' && row.message_id === message_id)
  if (at >= 0) rows.messages.splice(at, 1)
  else rows.delivered.push({ message_id })
}

function userRow(event: EventOf<'message_received' | 'message_scheduled'>): NewMessageRow {
  const { messageId, content, metadata, blob, by, dueAt } = event
  return messageRow(event, {
    messageId,
    kind: event.type === 'message_scheduled' ? 'scheduled' : 'user',
    ...defined({ dueAt }),
    place: { run: null, turn: null, position: null, ordinal: 0 },
    message: { role: 'user', content },
    ...(metadata && { metadata }),
    ...defined({ by }),
    ...(blob && { blobs: [storedBlob(null, blob)] }),
  })
}

function takeMessages(rows: MessageRows, event: EventOf<'turn_started'>): void {
  const { run, turn, seq: position } = event
  for (const [ordinal, messageId] of event.takes.entries()) {
    const message_id = safeKey(messageId)
    const place = { run, turn, position, ordinal }
    const received = rows.messages.find((row) => row.kind === 'user' && row.run === null && row.message_id === message_id)
    if (received) Object.assign(received, place)
    else rows.taken.push({ message_id, ...place })
  }
}

interface NewMessage {
  messageId: string
  kind: string
  place: Pick<NewMessageRow, 'run' | 'turn' | 'position' | 'ordinal'>
  message: { role: string; content: EventOf<'message_received'>['content'] | Transcript['messages'][number]['content'] }
  metadata?: NonNullable<EventOf<'message_received'>['metadata']>
  by?: string
  dueAt?: number
  callIds?: string[]
  blobs?: StoredBlob[]
}

function messageRow(
  event: SessionEvent,
  { messageId, kind, place, message, metadata, by, dueAt, callIds, blobs }: NewMessage,
): NewMessageRow {
  const safe = sanitiser()
  const content = message.content as Json
  return {
    seq: event.seq,
    message_id: safe.key(messageId),
    ...place,
    role: message.role,
    kind,
    content: safe.json(content),
    metadata: metadata ? safe.json(metadata) : null,
    by: by === undefined ? null : safe.text(by),
    at: new Date(event.at).toISOString(),
    scheduled_for: dueAt === undefined ? null : new Date(dueAt).toISOString(),
    call_ids: callIds ?? null,
    blobs: blobs ? JSON.stringify(blobs) : null,
    raw: safe.raw({ messageId, content, metadata: metadata ?? null, by: by ?? null }),
  }
}
