// Deltas: pieces of an answer that its model is still producing. They are never part of the session; the recorded answer replaces them.
import type { EventType, SessionEvent } from '../events.ts'
import { isObject } from '../json.ts'

/** A piece of a streamed answer. `index`: the position of its block in the answer's content. */
export type ModelDelta =
  | { type: 'text'; index: number; text: string }
  | { type: 'thinking'; index: number; thinking: string }
  /** Arguments of a tool call, as JSON text. `name`: the tool's name, in the first piece of the block, if the Model knows it by then. */
  | { type: 'tool_input'; index: number; partialJson: string; name?: string }
  /** A call of a tool that the provider runs has begun. `id`: the provider's id of the call. */
  | { type: 'provider_call'; index: number; id: string; name: string }

/**
 * One attempt of one model call that streams. The later of two streams of a session has the larger `seq`, then `attempt`, then `begunAt`,
 * because a call that moved to another executor begins again under the same attempt.
 */
export interface DeltaStream {
  sessionId: string
  /** `seq` of the last event that the call has seen. */
  seq: number
  run: number
  turn: number
  attempt: number
  /** When it began by its executor's clock, in milliseconds since 1970. */
  begunAt: number
}

/** The pieces of a stream between two positions. A position counts the characters so far, and one for each tool's name. */
export interface DeltaPart extends DeltaStream {
  from: number
  until: number
  pieces: ModelDelta[]
}

/** A reader's position in a stream. */
export interface DeltaCursor extends Pick<DeltaStream, 'seq' | 'attempt' | 'begunAt'> {
  until: number
}

/** The position before all streams. */
export const NO_DELTAS: DeltaCursor = { seq: -1, attempt: 0, begunAt: 0, until: 0 }

/** Compares two streams; negative if `one` began before `other`. */
export function compareStreams(one: Omit<DeltaCursor, 'until'>, other: Omit<DeltaCursor, 'until'>): number {
  return one.seq - other.seq || one.attempt - other.attempt || one.begunAt - other.begunAt
}

/** The value as a delta, without members that do not belong to it; undefined if it is not a delta or is empty. */
export function soundDelta(given: unknown): ModelDelta | undefined {
  if (!isObject(given)) return undefined
  const { type, index, text, thinking, partialJson, name, id } = given as Record<string, unknown>
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0) return undefined
  if (type === 'text') return typeof text === 'string' && text !== '' ? { type, index, text } : undefined
  if (type === 'thinking') return typeof thinking === 'string' && thinking !== '' ? { type, index, thinking } : undefined
  if (type === 'provider_call')
    return typeof id === 'string' && typeof name === 'string' && name !== '' ? { type, index, id, name } : undefined
  if (type !== 'tool_input' || typeof partialJson !== 'string') return undefined
  if (typeof name === 'string' && name !== '') return { type, index, partialJson, name }
  return partialJson === '' ? undefined : { type, index, partialJson }
}

/** Whether an invalid delta is merely empty. */
export function isEmptyDelta(given: unknown): boolean {
  if (!isObject(given)) return false
  const { text, thinking, partialJson } = given as Record<string, unknown>
  return text === '' || thinking === '' || partialJson === ''
}

/** How much a piece adds to the position. */
export function sizeOf(piece: ModelDelta): number {
  return textOfDelta(piece).length + (namesTool(piece) || piece.type === 'provider_call' ? 1 : 0)
}

/** The text of a piece, whatever its type. */
export function textOfDelta(piece: ModelDelta): string {
  switch (piece.type) {
    case 'text':
      return piece.text
    case 'thinking':
      return piece.thinking
    case 'tool_input':
      return piece.partialJson
    case 'provider_call':
      return ''
  }
}

/** Adds a piece, in place. A piece that continues the last one's block is merged into it. */
export function addDelta(pieces: ModelDelta[], piece: ModelDelta): void {
  const last = pieces.at(-1)
  if (!last || last.type !== piece.type || last.index !== piece.index || namesTool(piece) || piece.type === 'provider_call')
    pieces.push(piece)
  else pieces[pieces.length - 1] = withText(last, textOfDelta(last) + textOfDelta(piece))
}

/** The pieces without their first `size` positions. */
export function withoutFirst(pieces: readonly ModelDelta[], size: number): ModelDelta[] {
  let left = size
  return pieces.flatMap((piece) => {
    const skipped = Math.min(left, sizeOf(piece))
    left -= skipped
    if (skipped === 0) return [piece]
    if (skipped === sizeOf(piece)) return []
    const named = namesTool(piece)
    return [withText(piece, textOfDelta(piece).slice(named ? skipped - 1 : skipped), { keepName: false })]
  })
}

function namesTool(piece: ModelDelta): boolean {
  return piece.type === 'tool_input' && piece.name !== undefined
}

function withText(piece: ModelDelta, text: string, { keepName = true } = {}): ModelDelta {
  if (piece.type === 'provider_call') return piece
  const { index } = piece
  if (piece.type === 'text') return { type: 'text', index, text }
  if (piece.type === 'thinking') return { type: 'thinking', index, thinking: text }
  return { type: 'tool_input', index, partialJson: text, ...(keepName && piece.name !== undefined && { name: piece.name }) }
}

/** Events that end a model call in progress: its answer, or an event that invalidates the call. */
export const CALL_ENDS = [
  'model_attempt_failed',
  'model_completed',
  'run_completed',
  'run_interrupted',
  'error_entered',
  'recovery_started',
  'rolled_back',
  'session_resumed',
  'session_started',
  'session_closed',
] as const satisfies EventType[]

/** Whether the event ends the model call in progress. */
export function endsCall({ type }: Pick<SessionEvent, 'type'>): boolean {
  return (CALL_ENDS as readonly EventType[]).includes(type)
}
