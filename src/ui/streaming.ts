// One stream of UI chunks: which part of a session it shows, where it starts, and when it ends because nothing follows without user input.
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { SessionEvent } from '../session/events.ts'
import { fold } from '../session/fold/fold.ts'
import { requestIdOf } from '../session/ids.ts'
import { cutOf, NO_RUN } from '../session/past/cut.ts'
import { isWaiting } from '../session/past/call-status.ts'
import { leavesByItself } from '../session/recovery/recovery.ts'
import type { SessionState } from '../session/state.ts'
import { startMapping, type UiItem } from './mapping.ts'
import type { UiOutline } from './outline.ts'
import { outputSeq } from './outputs.ts'
import type { UiChunk, UiShow } from './protocol.ts'
import { surviving, type SurvivingEvent } from './surviving.ts'
import { type ErrorTexts, failureDetail, failureText } from './user-texts.ts'

/** The position of a stream. */
export type UiCursor =
  /** Before the answer to this message, which begins after the event `since`. */
  | { message: string; since: number }
  /** After the event `after`. The stream shows only `answer` if that is set, otherwise all answers from there on. */
  | { after: number; answer?: string }

/** A chunk that a stream sends. */
export interface UiSentChunk {
  chunk: UiChunk
  /** The stream's position after this chunk; absent if the stream cannot be resumed here. */
  cursor?: UiCursor
}

/** Whether a stream ends. `soon`: it ends unless something is already in flight. */
export type UiEnd = 'open' | 'soon' | 'ended'

/** A past event that a stream shows, and whose contents it needs. */
export interface UiToShow {
  seq: number
  /** Its place. */
  at: number
  /** The place of the next one. */
  next: number | undefined
  /** `seq` of the event with the output that it shows, if that is another one. */
  output: number | undefined
  /** Whether it is archived, apart from users' messages. */
  isArchived: boolean
  /** A stream never shortens it. */
  fits: true
}

export interface UiChunkStream {
  /** `seq` of the last event that it received. */
  readonly seq: number
  /** Shows the next past event. */
  past(event: SessionEvent, place: UiToShow): UiSentChunk[]
  /** Shows the next new event. */
  event(event: SessionEvent): UiSentChunk[]
  delta(at: { run: number; turn: number }, delta: ModelDelta): UiSentChunk[]
  reset(): UiSentChunk[]
  /** Whether more will follow. */
  end(): UiEnd
  /** The chunk that ends the stream. */
  last(): UiChunk
}

export interface UiStreamOptions {
  from: UiCursor
  show: UiShow
  /** Default `masked`. */
  errorTexts?: ErrorTexts | undefined
  /** The session as known when the stream begins. */
  past: UiOutline
  /** Whether the stream is read from the beginning of an answer, so that parts archived earlier were never shown. */
  isFresh?: true
  /** Ids of calls that were just decided, which the events may not show yet. Default: none. */
  decided?: ReadonlySet<string>
}

/** When a page loaded its messages: at or after a moment (in milliseconds since 1970), or with the events up to a `seq`. */
export type UiLoadPoint = { after: number } | { seq: number }

/**
 * Where a page that has just loaded its messages resumes: at the first answer that may have continued since then. That is one in progress,
 * or one that was extended since `loaded` (default: none). Undefined if there is no such answer, and none will follow before a user sends
 * something.
 */
export function resumePoint({ state, events }: UiOutline, loaded: UiLoadPoint = { seq: Number.POSITIVE_INFINITY }): UiCursor | undefined {
  if (!state) return undefined
  const atRest = isAtRest(state, new Set())
  const answers = answersIn(events)
  const newest = answers.at(-1)
  const isExtended = ({ at, upTo }: Answer): boolean => ('seq' in loaded ? upTo > loaded.seq : at >= loaded.after)
  const first = answers.find((answer) => isExtended(answer) || (answer === newest && !atRest && answer.isOpen))
  if (first) return { after: first.seq - 1 }
  return atRest ? undefined : { after: state.seq }
}

/** Whether the outline reaches back to where a stream from this position begins. `takenAt`: where a turn accepted the stream's message. */
export function reachesBack({ start }: UiOutline, from: UiCursor, takenAt: number | null): boolean {
  if (start === 0) return true
  return 'after' in from ? start <= from.after : takenAt === null || takenAt <= from.since || start <= takenAt
}

/** Whether the outline has all answers that were extended since a page loaded its messages; see `resumePoint`. */
export function reachesLoaded({ start, events, earlier }: UiOutline, loaded: UiLoadPoint): boolean {
  if (start === 0) return true
  const isBefore = ({ seq, at }: { seq: number; at: number }): boolean => ('seq' in loaded ? seq <= loaded.seq : at < loaded.after)
  return isBefore(events.find(({ seq }) => seq === start) ?? { seq: start, at: 0 }) && earlier.every(isBefore)
}

/** An answer: its first event, when and by which event it was last extended, and whether it may be extended further. */
interface Answer {
  seq: number
  at: number
  upTo: number
  isOpen: boolean
}

/** The answers that the conversation still shows. */
function answersIn(past: readonly SessionEvent[]): Answer[] {
  const mapping = startMapping({ show: 'steps' })
  const answers: Answer[] = []
  for (const { event, isArchived } of surviving(past)) {
    for (const { chunk } of mapping.event(event, isArchived)) {
      if (chunk.type === 'start') answers.push({ seq: event.seq, at: event.at, upTo: event.seq, isOpen: true })
      const newest = answers.at(-1)
      if (newest) Object.assign(newest, { at: event.at, upTo: Math.max(newest.upTo, event.seq) })
      // The calls of a failed run are still open.
      if (newest && chunk.type === 'message-metadata') newest.isOpen = ['running', 'error'].includes(chunk.messageMetadata.pawl.status)
    }
  }
  return answers
}

/** Starts a stream that knows `past`. `toShow`: the past events that its caller must pass first, in order. */
export function startStreaming({ from, show, errorTexts = 'masked', past, isFresh, decided = new Set() }: UiStreamOptions): {
  toShow: UiToShow[]
  stream: UiChunkStream
} {
  const answered = answeredIn(past.events)
  const mapping = startMapping({ show, errorTexts, isSettled: (callId) => answered.has(callId) })
  let cursor = from
  let { state } = past
  let seq = 0
  /** The turn with which the newest answer begins. Chunks cannot change the answers before it. */
  let newestStart = { run: 0, turn: 0 }
  /** The answer that the mapping has reached. */
  let current: { id: string; run: number } | undefined
  let isReceived = false
  let problem: { code: string; reason: string } | undefined
  /** Whether the answer that the stream shows has ended. */
  let isOver = false
  /** Whether the client still lacks a message to which chunks can be added. */
  let isBefore = isFresh === true

  function follow(event: SessionEvent): void {
    seq = event.seq
    if ('message' in cursor) {
      // A message that was refused may have been sent again.
      if (event.type === 'message_received' && event.messageId === cursor.message) [isReceived, problem] = [true, undefined]
      if (event.type === 'message_rejected' && event.messageId === cursor.message) problem = event
    } else if (event.seq > cursor.after && (isRetraction(event) || changesEarlierAnswer(event, newestStart))) problem = HISTORY_CHANGED
  }

  /** `next`: the place of the next event to show. A stream cannot be resumed between two events of one place. */
  function shownOf({ event, at, isArchived }: SurvivingEvent, next?: number): UiSentChunk[] {
    const items = mapping.event(event, isArchived)
    if (event.type === 'turn_started' && items.some(({ chunk }) => chunk.type === 'start')) newestStart = event
    return items.flatMap((item, n) => send(item, at, n === items.length - 1 && at !== next))
  }

  function send({ chunk, takes }: UiItem, at: number, isLast: boolean): UiSentChunk[] {
    if (chunk.type === 'start') begin(chunk.messageId, chunk.messageMetadata.pawl.run, takes ?? [], at)
    if (!isShown() || !('after' in cursor) || at <= cursor.after) return []
    if (!isLast) return [{ chunk }]
    cursor = { ...cursor, after: at }
    return [{ chunk, cursor }]
  }

  function begin(id: string, run: number, takes: readonly string[], at: number): void {
    if ('answer' in cursor && current?.id === cursor.answer) isOver = true
    current = { id, run }
    if ('after' in cursor && at > cursor.after) isBefore = false
    if ('message' in cursor && at > cursor.since && takes.includes(cursor.message)) cursor = { after: at - 1, answer: id }
  }

  function isShown(): boolean {
    return !isOver && !isBefore && 'after' in cursor && (cursor.answer === undefined || cursor.answer === current?.id)
  }

  function end(): UiEnd {
    if (isOver || problem) return 'ended'
    if (!state) return 'open'
    if ('message' in cursor && !isReceived) return 'open'
    if (isFromEndedRun(state)) return 'ended'
    if (!isAtRest(state, decided)) return 'open'
    return 'after' in cursor && state.status === 'idle' ? 'ended' : 'soon'
  }

  function isFromEndedRun({ current: run }: SessionState): boolean {
    return 'after' in cursor && cursor.answer !== undefined && cursor.answer === current?.id && run?.run !== current.run
  }

  function last(): UiChunk {
    const failed = problem ?? (isOver ? undefined : state?.error)
    if (failed) {
      const { code, reason } = failed
      return { type: 'error', errorText: failureText(code), code, detail: problem ? reason : failureDetail(failed, errorTexts) }
    }
    return { type: 'finish', finishReason: state?.status === 'waiting' ? 'tool-calls' : 'stop' }
  }

  const starts = new Set(answersIn(past.events).map((answer) => answer.seq))
  const known = [...past.events, ...past.earlier].sort((one, other) => one.seq - other.seq)
  for (const event of known) {
    if (event.type === 'turn_started' && starts.has(event.seq)) newestStart = event
    follow(event)
  }
  if (isFresh) problem = undefined
  const toShow = problem ? [] : shownFrom(from, past.events)
  const live = (items: readonly UiItem[]): UiSentChunk[] => (isShown() ? items.map(({ chunk }) => ({ chunk })) : [])
  return {
    toShow,
    stream: {
      get seq() {
        return seq
      },
      past: (event, { at, next, isArchived }) => shownOf({ event, at, isArchived }, next),
      event(event) {
        state = fold(state, [event])
        follow(event)
        return problem ? [] : shownOf({ event, at: event.seq, isArchived: false })
      },
      delta: (at, delta) => live(mapping.delta(at, delta)),
      reset: () => live(mapping.reset()),
      end,
      last,
    },
  }
}

/** The requests that a client has answered, unless they were made again since. */
function answeredIn(events: readonly SessionEvent[]): Set<string> {
  const answered = new Set<string>()
  for (const event of events) {
    if (event.type === 'answer_requested') answered.delete(requestIdOf(event.callId))
    if (event.type === 'answer_received') answered.add(requestIdOf(event.callId))
  }
  return answered
}

/**
 * The events that a stream from this position shows. An answer is read from its beginning even if the stream resumes in its middle, because
 * the chunks of a call depend on how it was requested.
 */
function shownFrom(from: UiCursor, events: readonly SessionEvent[]): UiToShow[] {
  const shown = surviving(events).filter(({ event, isArchived }) => !isArchived || event.type === 'turn_started')
  const first = firstShown(from, shown)
  if (first === undefined) return []
  return shown.slice(first).map(({ event, at, isArchived }, n) => ({
    ...{ seq: event.seq, at, isArchived },
    ...{ next: shown[first + n + 1]?.at, output: outputSeq(events, event), fits: true },
  }))
}

function firstShown(from: UiCursor, shown: readonly SurvivingEvent[]): number | undefined {
  const mapping = startMapping({ show: 'steps' })
  let first: number | undefined = 'message' in from ? undefined : 0
  for (const [n, { event, at, isArchived }] of shown.entries()) {
    const isStart = mapping.event(event, isArchived).some(({ chunk }) => chunk.type === 'start')
    if ('message' in from) {
      if (at > from.since && event.type === 'turn_started' && event.takes.includes(from.message)) return n
    } else if (isStart && at <= from.after) first = n
  }
  return first
}

const HISTORY_CHANGED = { code: 'history_changed', reason: 'The history of the session changed. Load its messages again.' }

/** Whether nothing more happens until a user sends a message or makes a decision. */
function isAtRest({ status, inbox, error, current }: SessionState, decided: ReadonlySet<string>): boolean {
  switch (status) {
    case 'idle':
      return inbox.length === 0
    case 'closed':
      return true
    case 'error':
      return error !== null && !leavesByItself(error)
    case 'waiting':
      // A call that was just decided may since wait for a person again, because its outcome is unknown.
      return (current?.calls ?? []).some((call) => isWaiting(call) && (call.status === 'awaiting_resolution' || !decided.has(call.callId)))
    case 'running':
      return false
  }
}

/** The part of a call's state that chunks show. */
const OF_CALLS: ReadonlySet<SessionEvent['type']> = new Set([
  'tool_issued',
  'approval_requested',
  'approval_decided',
  'tool_completed',
  'tool_failed',
  'tool_unknown',
  'tool_resolved',
])

/** Whether the event changes the result of a call in an answer before the one that begins with `newest`. */
function changesEarlierAnswer(event: SessionEvent, newest: { run: number; turn: number }): boolean {
  // The calls that are made again have lost their results.
  if (event.type === 'recovery_started' && event.strategy === 'selective') return true
  if (!OF_CALLS.has(event.type)) return false
  if (event.type === 'tool_resolved' && event.run < newest.run) return true
  return 'turn' in event && event.run === newest.run && (event.turn ?? 0) < newest.turn
}

/** Whether the event archives answers. */
function isRetraction(event: SessionEvent): boolean {
  const cut = event.type === 'forked' ? undefined : cutOf(event, NO_RUN)
  return cut !== undefined && !cut.outcomes
}
