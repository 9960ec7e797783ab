// The projections: what a session's events make of the store's rows. Pure, so that writing behind and rebuilding share it.
import type { EventOf, SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { addToTranscript, emptyTranscript, type Transcript } from '../session/transcript.ts'
import { projectCall, type ToolCallRecord } from './project-calls.ts'
import { projectError } from './project-errors.ts'
import { applyToSession, type SessionColumns } from './session-columns.ts'
import type { ERRORS, MESSAGES, RowOf, TAKEN, TOKEN_USAGE } from './tables.ts'
import { jsonText, safeKey, sanitiser } from './text.ts'

/** What projecting an event needs to know of those before it. */
export interface Projection {
  session: SessionColumns
  /** The newest turn while results of its calls are missing. */
  openTurn: OpenTurn | null
  /** Never holds messages: they become rows as soon as they stand in it. */
  transcript: Transcript
}

/** A turn whose tool results are not all there, by its `model_completed`. */
export interface OpenTurn {
  seq: number
  run: number
  turn: number
}

/** The rows that a segment of events makes. */
export interface Rows {
  messages: RowOf<typeof MESSAGES>[]
  /** Taken by a turn of the segment, but received before the segment. */
  taken: RowOf<typeof TAKEN>[]
  toolCalls: Map<string, ToolCallRecord>
  errors: RowOf<typeof ERRORS>[]
  usage: RowOf<typeof TOKEN_USAGE>[]
  /** The segment's last event takes this run out of the transcript: to be applied after the rows above. */
  dropped: { run: number; seq: number } | null
}

/** A projection of no events but those that `session` was folded from. */
export function newProjection(session: SessionColumns): Projection {
  return { session, openTurn: null, transcript: emptyTranscript() }
}

/** Tells a projection of events whose rows are stored: those of the open turn, and results that are replayed. */
export function recall(projection: Projection, events: Iterable<SessionEvent>): void {
  for (const event of events) growTranscript(projection, event)
}

/**
 * Cuts events into segments that can be applied in one go each: at most `maxBytes` of JSON (or one event),
 * and ending where rows are taken back, because one statement cannot change a row twice.
 */
export function segmentsOf<E extends { event: SessionEvent; json: string }>(entries: readonly E[], maxBytes: number): E[][] {
  const segments: E[][] = []
  let segment: E[] = []
  let bytes = 0
  for (const entry of entries) {
    segment.push(entry)
    bytes += entry.json.length
    if (bytes >= maxBytes || dropsRun(entry.event)) {
      segments.push(segment)
      segment = []
      bytes = 0
    }
  }
  if (segment.length > 0) segments.push(segment)
  return segments
}

/** The rows of one segment; the projection is changed in place. */
export function project(projection: Projection, events: Iterable<SessionEvent>): Rows {
  const rows: Rows = { messages: [], taken: [], toolCalls: new Map(), errors: [], usage: [], dropped: null }
  for (const event of events) {
    if (dropsRun(event)) rows.dropped = { run: projection.session.run, seq: event.seq }
    projectCall(rows.toolCalls, event, callIsOpen(projection))
    projectMessages(projection, rows, event)
    const error = projectError(event)
    if (error) rows.errors.push(error)
    if (event.type === 'model_completed') rows.usage.push(usageRow(event))
    applyToSession(projection.session, event)
  }
  return rows
}

/** Calls whose completed results the events repeat without carrying them. */
export function replayedCalls(events: Iterable<SessionEvent>): string[] {
  const calls = new Set<string>()
  for (const event of events) if (event.type === 'tool_completed' && event.replayOf !== undefined) calls.add(event.replayOf)
  return [...calls]
}

function dropsRun(event: SessionEvent): boolean {
  return event.type === 'recovery_started' && event.strategy === 'restart_run'
}

function callIsOpen({ transcript: { open } }: Projection): (callId: string) => boolean {
  return (callId) => open !== null && open.callIds.includes(callId) && !open.results.has(callId)
}

function projectMessages(projection: Projection, rows: Rows, event: SessionEvent): void {
  if (event.type === 'message_received') {
    rows.messages.push(userRow(event))
    return
  }
  if (event.type === 'turn_started') takeMessages(rows, event)
  rows.messages.push(...growTranscript(projection, event))
}

/** Lets the transcript's own fold make the messages, so that rows and what the model sees cannot differ. */
function growTranscript(projection: Projection, event: SessionEvent): Rows['messages'] {
  // What users said are rows before a run takes them, so the transcript is told nothing of them.
  if (event.type === 'message_received') return []
  const { transcript, openTurn } = projection
  addToTranscript(transcript, stackSafe(event))
  const made = transcript.messages.splice(0)
  if (event.type === 'model_completed') projection.openTurn = { seq: event.seq, run: event.run, turn: event.turn }
  if (transcript.open === null) projection.openTurn = null
  return made.flatMap((message) => {
    const isAnswer = event.type === 'model_completed'
    const place = isAnswer ? event : openTurn
    if (!place) return []
    const { run, turn } = place
    return messageRow(event, {
      messageId: `${isAnswer ? 'm' : 'r'}_${run}_${turn}`,
      kind: isAnswer ? 'assistant' : 'tool_results',
      place: { run, turn, position: place.seq, ordinal: isAnswer ? 0 : 1 },
      message,
    })
  })
}

/** The transcript makes JSON text of a result by the built-in, which some thousand levels of nesting overflow. */
function stackSafe(event: SessionEvent): SessionEvent {
  if (event.type !== 'tool_completed' || event.content !== undefined || event.value === undefined) return event
  try {
    JSON.stringify(event.value)
    return event
  } catch {
    return { ...event, content: jsonText(event.value) }
  }
}

function userRow(event: EventOf<'message_received'>): Rows['messages'][number] {
  const { messageId, content, metadata } = event
  return messageRow(event, {
    messageId,
    kind: 'user',
    place: { run: null, turn: null, position: null, ordinal: 0 },
    message: { role: 'user', content },
    ...(metadata && { metadata }),
  })
}

function takeMessages(rows: Rows, event: EventOf<'turn_started'>): void {
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
  place: Pick<Rows['messages'][number], 'run' | 'turn' | 'position' | 'ordinal'>
  message: { role: string; content: EventOf<'message_received'>['content'] | Transcript['messages'][number]['content'] }
  metadata?: NonNullable<EventOf<'message_received'>['metadata']>
}

function messageRow(event: SessionEvent, { messageId, kind, place, message, metadata }: NewMessage): Rows['messages'][number] {
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
    at: new Date(event.at).toISOString(),
    raw: safe.raw({ messageId, content, metadata: metadata ?? null }),
  }
}

function usageRow(event: EventOf<'model_completed'>): Rows['usage'][number] {
  const { seq, run, turn, model, usage, at } = event
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage
  return {
    seq,
    run,
    turn,
    model: safeKey(model),
    input_tokens,
    output_tokens,
    cache_creation_input_tokens,
    cache_read_input_tokens,
    at: new Date(at).toISOString(),
  }
}
