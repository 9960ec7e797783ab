// What a rollback, a regeneration or a fork would do, before it is carried out: the same search, event, cut and fold, applied to a copy.
import type { EffectReport } from '../call-facts.ts'
import { isAgentCall } from '../agents/agent-calls.ts'
import { decide, dueAt, isRunInProgress, type SessionStep } from '../decide.ts'
import type { EventBody, EventOf, SessionEvent, Target } from '../events.ts'
import { fold } from '../fold/fold.ts'
import { requestIdOf } from '../ids.ts'
import { hasEnded } from '../past/call-status.ts'
import { addToVisible, nothingVisible, type PastEntry } from '../past/visible.ts'
import type { CallState, SessionState } from '../state.ts'
import { type PlaceQuery, type PlaceToGoBackTo, placeIn } from './going-back.ts'
import type { NextStep } from './preview.ts'
import type { RestoredValues } from './restored.ts'
import { rememberedCalls, rolledBackTo } from './rolled-back.ts'

/** What going back would do. Calls are named by their ids. */
export interface GoingBackPreview {
  /** The last event that stays; of a fork, the last one that is copied. */
  toSeq: number
  /** The run that is interrupted first; null: none is. */
  interrupts: number | null
  /** Its calls without a result, which are stopped. One that has begun may have happened. */
  stops: string[]
  /** The users' messages that leave the conversation; of a fork, that are not in it. */
  messages: string[]
  /** The answers that leave. */
  answers: { run: number; turn: number }[]
  /** The calls whose results leave. */
  calls: string[]
  /** Effects that completed, or may have, and are not undone: the newest 100. */
  effects: EffectReport[]
  /** How many more there are. */
  moreEffects: number
  /** Completed effects whose keys still count: pawl answers another request with the same key from the first result. */
  replays: string[]
  /** Messages that wait for a run afterwards. */
  waits: string[]
  /** What changes of the plan and the memory; absent: nothing. */
  restored?: RestoredValues
  /** The first step afterwards; absent: the session waits for a message or a person. */
  next?: NextStep
}

/** @throws TargetRefused. */
export function previewRollback(
  events: readonly SessionEvent[],
  { target, keys }: { target: Target; keys?: 'kept' | 'forgotten' },
): GoingBackPreview {
  const { past, interrupts } = interrupted(events)
  const upToSeq = past.at(-1)?.seq ?? 0
  const state = keys === 'forgotten' ? fold(undefined, past) : undefined
  const place = placeOf(past, { target, upToSeq, ...(state && { calls: rememberedCalls(state) }) })
  const forgets = keys === 'forgotten' && { keys, ...(place.among && { alsoForgotten: place.among }) }
  return previewOf(past, place, { interrupts, after: withEvent(past, rolledBackTo(place, { upToSeq, target, ...forgets })) })
}

/** @throws TargetRefused. */
export function previewRegeneration(events: readonly SessionEvent[]): GoingBackPreview {
  const { past, interrupts } = interrupted(events)
  const place = placeOf(past, { newestRun: true })
  const again = place.again && { again: place.again }
  return previewOf(past, place, { interrupts, after: withEvent(past, rolledBackTo(place, { upToSeq: 0, ...again })) })
}

/** Without a target, the fork begins at the session's newest point. @throws TargetRefused. */
export function previewFork(
  events: readonly SessionEvent[],
  { target, keys = 'carried' }: { target?: Target; keys?: 'carried' | 'forgotten' },
): GoingBackPreview {
  const { past, interrupts } = interrupted(events)
  const { restored: _, ...place } = placeOf(past, { archived: true, ...(target && { target }) })
  const from = { sessionId: past[0]?.type === 'session_started' ? past[0].sessionId : '', seq: place.seq }
  const copied = past.filter(({ seq }) => seq <= place.seq)
  const event: EventBody = { type: 'forked', sessionId: `${from.sessionId} fork`, executionId: '', coreVersion: 1, from, keys }
  return previewOf(past, place, { interrupts, after: withEvent(copied, event) })
}

/** The targets nearest to an event, at or before it: a message that a turn took or that still waits, the beginning of a run, a checkpoint. */
export function targetsBefore(events: readonly SessionEvent[], seq: number): Target[] {
  const messages = new Map<string, number>()
  let checkpoint: number | undefined
  let run: number | undefined
  for (const event of events) {
    if (event.type === 'message_received') messages.set(event.messageId, event.seq)
    // For the model, what happened before its turn is older than the message.
    if (event.type === 'turn_started') for (const message of event.takes) messages.set(message, event.seq)
    if (event.seq > seq) continue
    if (event.type === 'checkpoint_made') checkpoint = event.version
    if (event.type === 'run_started') run = event.run
  }
  const [newest] = [...messages].filter(([, at]) => at <= seq).toSorted(([, one], [, other]) => other - one)
  return [
    ...(newest ? [{ message: newest[0] }] : []),
    ...(run === undefined ? [] : [{ run }]),
    ...(checkpoint === undefined ? [] : [{ checkpoint }]),
  ]
}

/** The events as the interruption leaves them that comes first. What becomes of calls in progress is not known yet. */
function interrupted(events: readonly SessionEvent[]): { past: readonly SessionEvent[]; interrupts: number | null } {
  const state = fold(undefined, events)
  // The request opens the session first, and a run that had not ended then continues.
  if (state?.status === 'closed')
    return interrupted(withEvent(events, { type: 'session_resumed', executionId: '', fromEpoch: '', coreVersion: 1 }))
  if (!state?.current || !isRunInProgress(state)) return { past: events, interrupts: null }
  const { run } = state.current
  return { past: withEvent(events, { type: 'run_interrupted', run }), interrupts: run }
}

function withEvent(events: readonly SessionEvent[], body: EventBody): SessionEvent[] {
  const { seq = 0, at = 0 } = events.at(-1) ?? {}
  return [...events, { v: 1, seq: seq + 1, at, ...body } as SessionEvent]
}

/** The digests of the events matter only to what is carried out. */
function placeOf(past: readonly SessionEvent[], query: PlaceQuery): PlaceToGoBackTo {
  return placeIn(
    past.map((event) => ({ event, digest: '' })),
    query,
  )
}

function previewOf(
  past: readonly SessionEvent[],
  { seq: toSeq, effects, more, restored }: PlaceToGoBackTo,
  { interrupts, after }: { interrupts: number | null; after: readonly SessionEvent[] },
): GoingBackPreview {
  const staying = countingIn(after)
  const stays = new Set(staying.map(({ event }) => event.seq))
  // An earlier outcome of the call may count again.
  const answered = new Set(staying.flatMap(({ event }) => (isResult(event) ? [requestIdOf(event.callId)] : [])))
  const leaving = countingIn(past).flatMap(({ event }) => (stays.has(event.seq) ? [] : [event]))
  const state = fold(undefined, after)
  const known = new Set(Object.values(state?.keys ?? {}).map(requestIdOf))
  const next = state && nextStepOf(state)
  return {
    toSeq,
    interrupts,
    stops: interrupts === null ? [] : openCalls(past.slice(0, -1)),
    messages: leaving.flatMap((event) => (event.type === 'message_received' ? [event.messageId] : [])),
    // An empty answer is not a message.
    answers: leaving.flatMap((event) =>
      event.type === 'model_completed' && event.content.length > 0 ? [{ run: event.run, turn: event.turn }] : [],
    ),
    calls: [...new Set(leaving.flatMap((event) => (isResult(event) && !answered.has(requestIdOf(event.callId)) ? [event.callId] : [])))],
    effects,
    moreEffects: more,
    replays: effects.flatMap(({ callId, status }) => (status === 'completed' && known.has(requestIdOf(callId)) ? [callId] : [])),
    waits: state?.inbox.map(({ messageId }) => messageId) ?? [],
    ...(restored && { restored }),
    ...(next && { next }),
  }
}

type ResultEvent = EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>

function isResult(event: SessionEvent): event is ResultEvent {
  return event.type === 'tool_completed' || event.type === 'tool_failed' || event.type === 'tool_unknown'
}

/** The entries that are part of the conversation. */
function countingIn(events: readonly SessionEvent[]): PastEntry[] {
  const past = nothingVisible(({ type }) => type === 'message_received' || type === 'model_completed' || type.startsWith('tool_'))
  for (const event of events) addToVisible(past, event)
  return past.entries.filter(({ out, archivedBy }) => !out && !archivedBy)
}

function openCalls(events: readonly SessionEvent[]): string[] {
  const { current } = fold(undefined, events) ?? {}
  return [...(current?.calls ?? []), ...(current?.leftOut ?? [])].flatMap((call) => (hasEnded(call) ? [] : [call.callId]))
}

/** What a session does next; undefined if it waits for a message or a person. */
export function nextStepOf(state: SessionState): NextStep | undefined {
  const step = decide(state, dueAt(0))
  switch (step.do) {
    case 'start_run':
      return { step: 'new_run', run: step.run }
    case 'start_turn':
    case 'call_model':
      return { step: 'model_call', run: step.run, turn: step.turn }
    case 'run_calls':
      return { step: 'calls', run: step.run, turn: step.turn }
    case 'use_rules':
      return callsOf(state)
    case 'ask':
      // A session answers an agent's call. Other calls of the turn may run while a person is asked.
      return step.calls.some((one) => one.for === 'answer' && isAgentCall(one.call))
        ? callsOf(state)
        : nextStepOf(asking(state, step.calls))
    case 'complete_run':
      return { step: 'completion', run: step.run }
    default:
      return undefined
  }
}

function callsOf({ current }: SessionState): NextStep | undefined {
  return current ? { step: 'calls', run: current.run, turn: current.turn } : undefined
}

/** The state once these calls wait. */
function asking(state: SessionState, asked: (SessionStep & { do: 'ask' })['calls']): SessionState {
  const needs = new Map(asked.map(({ call, for: need }) => [call.callId, need]))
  const calls = state.current?.calls.map((call): CallState => {
    const need = needs.get(call.callId)
    if (need === undefined) return call
    return { ...call, status: need === 'approval' ? 'awaiting_approval' : 'awaiting_answer' }
  })
  return { ...state, current: state.current && { ...state.current, calls: calls ?? [] } }
}
