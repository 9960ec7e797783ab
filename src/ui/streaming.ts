// One stream of UI chunks: which part of a session it shows, from where, and when it has shown all that comes by itself.
import type { ModelDelta } from '../session/deltas.ts'
import type { SessionEvent } from '../session/events.ts'
import { fold } from '../session/fold.ts'
import { isWaiting } from '../session/fold-calls.ts'
import { leavesByItself } from '../session/recovery.ts'
import type { SessionState } from '../session/state.ts'
import { startMapping, type UiItem } from './mapping.ts'
import type { UiChunk, UiShow } from './protocol.ts'
import { surviving } from './surviving.ts'

/** Where a stream is. */
export type UiCursor =
  /** Before the answer to this message that begins after the event `since`. */
  | { message: string; since: number }
  /** Behind the event `after`; of `answer` alone, where that is named, else of all answers from there on. */
  | { after: number; answer?: string }

/** What a stream sends. */
export interface UiSent {
  chunk: UiChunk
  /** Where the stream is from here on; absent: it cannot be resumed here. */
  cursor?: UiCursor
}

/** How a stream goes on. `soon`: it ends unless something is on its way already. */
export type UiEnd = 'open' | 'soon' | 'ended'

/** One stream. */
export interface UiStreaming {
  /** The last event that it was given. */
  readonly seq: number
  event(event: SessionEvent): UiSent[]
  delta(at: { run: number; turn: number }, delta: ModelDelta): UiSent[]
  reset(): UiSent[]
  /** Whether more is to come. */
  end(): UiEnd
  /** What the stream ends with. */
  last(): UiChunk
}

/** What a stream shows. */
export interface UiStreamOptions {
  from: UiCursor
  show: UiShow
  /** What is known of the session as the stream begins. */
  past: readonly SessionEvent[]
  /** It is read from the beginning of an answer: what was archived of it earlier was never shown. */
  isFresh?: true
  /** Calls that were decided on just now, by ids: the events may not tell yet. */
  decided?: ReadonlySet<string>
}

/**
 * Where a page that has just loaded its messages resumes: at the first answer that may have gone on since, which is one in progress or one
 * that something has been added to after `loadedAfter` (milliseconds since 1970). Undefined: there is none, and none is to come before
 * a user says something.
 */
export function resumePoint(past: readonly SessionEvent[], loadedAfter = Number.POSITIVE_INFINITY): UiCursor | undefined {
  const state = fold(undefined, past)
  if (!state) return undefined
  const isStill = standstill(state, new Set())
  const answers = answersIn(past)
  const newest = answers.at(-1)
  const first = answers.find((answer) => answer.at >= loadedAfter || (answer === newest && !isStill && answer.isOpen))
  if (first) return { after: first.seq - 1 }
  return isStill ? undefined : { after: state.seq }
}

/** An answer: the event that it begins with, when something was last added to it, and whether more may be. */
interface Answer {
  seq: number
  at: number
  isOpen: boolean
}

/** The answers that are left. */
function answersIn(past: readonly SessionEvent[]): Answer[] {
  const mapping = startMapping({ show: 'steps' })
  const answers: Answer[] = []
  for (const { event, isLeft } of surviving(past)) {
    if (isLeft) continue
    for (const { chunk } of mapping.event(event)) {
      if (chunk.type === 'start') answers.push({ seq: event.seq, at: event.at, isOpen: true })
      const newest = answers.at(-1)
      if (newest) newest.at = event.at
      // A failed run has not closed its calls.
      if (newest && chunk.type === 'message-metadata') newest.isOpen = ['running', 'error'].includes(chunk.messageMetadata.pawl.status)
    }
  }
  return answers
}

/** A stream that has been given the past; `sent`: what it sends of that. */
export function startStreaming({ from, show, past, isFresh, decided = new Set() }: UiStreamOptions): {
  sent: UiSent[]
  stream: UiStreaming
} {
  const answered = new Set(past.flatMap((event) => (event.type === 'answer_received' ? [event.callId] : [])))
  const mapping = startMapping({ show, isSettled: (callId) => answered.has(callId) })
  let cursor = from
  let state: SessionState | undefined
  let seq = 0
  /** The answer that the mapping is at. */
  let current: { id: string; run: number } | undefined
  let isReceived = false
  let problem: { code: string; reason: string } | undefined
  /** The answer that the stream is about has ended. */
  let isOver = false
  /** The client has no message yet that anything could be added to. */
  let isBefore = isFresh === true

  function follow(event: SessionEvent): void {
    seq = event.seq
    state = fold(state, [event])
    if ('message' in cursor) {
      if (event.type === 'message_received' && event.messageId === cursor.message) isReceived = true
      if (event.type === 'message_rejected' && event.messageId === cursor.message) problem = event
    } else if (event.seq > cursor.after && isRetraction(event)) problem = GONE_BACK
  }

  function shownOf(event: SessionEvent): UiSent[] {
    const items = mapping.event(event)
    return items.flatMap((item, n) => send(item, event.seq, n === items.length - 1))
  }

  function send({ chunk, takes }: UiItem, at: number, isLast: boolean): UiSent[] {
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
    if (isOfEndedRun(state)) return 'ended'
    if (!standstill(state, decided)) return 'open'
    return 'after' in cursor && state.status === 'idle' ? 'ended' : 'soon'
  }

  function isOfEndedRun({ current: run }: SessionState): boolean {
    return 'after' in cursor && cursor.answer !== undefined && cursor.answer === current?.id && run?.run !== current.run
  }

  function last(): UiChunk {
    const failed = problem ?? (isOver ? undefined : state?.error)
    if (failed) return { type: 'error', errorText: `${failed.code}: ${failed.reason}`, code: failed.code }
    return { type: 'finish', finishReason: state?.status === 'waiting' ? 'tool-calls' : 'stop' }
  }

  const shownPast = surviving(past).flatMap(({ event, isLeft }) => (isLeft ? [] : [event]))
  for (const event of past) follow(event)
  if (isFresh) problem = undefined
  const all = shownPast.flatMap(shownOf)
  const sent = problem ? [] : all
  const live = (items: readonly UiItem[]): UiSent[] => (isShown() ? items.map(({ chunk }) => ({ chunk })) : [])
  return {
    sent,
    stream: {
      get seq() {
        return seq
      },
      event(event) {
        follow(event)
        return problem ? [] : shownOf(event)
      },
      delta: (at, delta) => live(mapping.delta(at, delta)),
      reset: () => live(mapping.reset()),
      end,
      last,
    },
  }
}

const GONE_BACK = { code: 'history_changed', reason: 'The session went back. Load its messages again.' }

/** Whether nothing more happens until a user says or decides something. */
function standstill({ status, inbox, error, current }: SessionState, decided: ReadonlySet<string>): boolean {
  switch (status) {
    case 'idle':
      return inbox.length === 0
    case 'closed':
      return true
    case 'error':
      return error !== null && !leavesByItself(error)
    case 'waiting':
      return (current?.calls ?? []).some((call) => isWaiting(call) && !decided.has(call.callId))
    case 'running':
      return false
  }
}

/** Whether answers are archived with the event. */
function isRetraction(event: SessionEvent): boolean {
  if (event.type === 'rolled_back' || event.type === 'session_started') return true
  return event.type === 'recovery_started' && ['restart_run', 'restart_from_last_effect', 'abandon'].includes(event.strategy)
}
