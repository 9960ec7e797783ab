// The outcomes of a turn's calls. All readers of a session's events get a call's status and outcome from this one reducer.
import { callIdOf } from '../ids.ts'
import type { Effect, ToolCallStatus } from '../call-facts.ts'
import type { EventOf, SessionEvent } from '../events.ts'
import { saidBy } from '../hooks/hooks.ts'
import type { Json } from '../json.ts'
import type { CallState } from '../state.ts'
import { cutOf, NO_RUN } from './cut.ts'

type CallStatus = CallState['status']

/** One of the newest answer's calls, as the events so far describe it. */
export interface TurnCall {
  status: CallStatus
  tool: string
  effect: Effect
  /** A client answers the call. */
  isClient: boolean
  /** The client is a session of another agent. */
  isAgent?: true
  /** The model's own arguments. */
  asked: Json
  /** Its effect may have happened without an event, because an attempt was cut off or failed. */
  mayHaveBegun?: true
  /** A hook has changed its arguments. */
  isChanged?: true
}

/** The calls of the newest answer by id, in the model's order. */
export type TurnCalls = Map<string, TurnCall>

/** Whether the call has its final result. */
export function hasEnded({ status }: { status: CallStatus }): boolean {
  return status === 'completed' || status === 'failed' || status === 'unknown'
}

/** Whether the call waits for a person, a client, or a time. */
export function isWaiting({ status }: { status: CallStatus }): boolean {
  return status === 'awaiting_approval' || status === 'awaiting_answer' || status === 'awaiting_resolution' || status === 'asleep'
}

/** Whether none of the turn's calls, in the order in which `decide` runs them, can continue without a person or a client. */
export function needsInput(calls: Iterable<Pick<TurnCall, 'status' | 'effect' | 'isClient' | 'isAgent'>>): boolean {
  let isHeldUp = false
  let someWait = false
  for (const call of calls) {
    // Another session works on it. What that session waits for is its own.
    if (call.isAgent && call.status === 'awaiting_answer') return false
    if (isWaiting(call)) {
      someWait = true
      isHeldUp ||= call.effect !== 'read' && !call.isClient
    } else if (call.status === 'issued' && (call.effect === 'read' || !isHeldUp)) {
      return false
    }
  }
  return someWait
}

/** The call's status after an event about it. `now`: its status before; undefined for a call of an earlier turn. */
export function statusAfter<S extends CallStatus | undefined>(event: SessionEvent, now: S): CallStatus | S {
  switch (event.type) {
    case 'tool_issued':
      return 'issued'
    case 'approval_requested':
      return 'awaiting_approval'
    case 'answer_requested':
      return 'awaiting_answer'
    case 'sleep_started':
      return 'asleep'
    case 'answer_received':
      // A client tool's call ends with the `tool_completed` that follows.
      return event.reply ? 'issued' : now
    case 'approval_decided':
      // A denied call ends with the `tool_failed` that follows.
      return event.approved ? 'issued' : now
    case 'tool_completed':
      return 'completed'
    case 'tool_failed':
      return 'failed'
    case 'tool_unknown':
      return event.ask ? 'awaiting_resolution' : 'unknown'
    case 'tool_resolved':
      return statusResolved(event, now)
    default:
      return now
  }
}

/** An open call that happened ends with the `tool_completed` that follows; after a skip, a `tool_failed` follows. */
function statusResolved<S extends CallStatus | undefined>({ happened, decision }: EventOf<'tool_resolved'>, now: S): CallStatus | S {
  if (decision === 'skip') return now
  if (now === undefined || hasEnded({ status: now })) return happened ? 'completed' : 'failed'
  return now === 'awaiting_resolution' && !happened ? 'issued' : now
}

/** An event that may say how a call ended. */
export type OutcomeEvent = EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown' | 'tool_resolved'>

/** Whether the event may say how a call ended. `outcomeIn` knows what it says. */
export function isOutcome(event: SessionEvent): event is OutcomeEvent {
  const { type } = event
  return type === 'tool_completed' || type === 'tool_failed' || type === 'tool_unknown' || type === 'tool_resolved'
}

/** The outcome of a call. */
export interface KnownOutcome {
  status: Exclude<ToolCallStatus, 'issued' | 'running' | 'awaiting_approval' | 'awaiting_answer' | 'asleep'>
  /** Absent if the call has no result of its own. */
  result?: Pick<EventOf<'tool_completed'>, 'value' | 'content' | 'blob' | 'effectId' | 'worker'>
  /** `asked`: a person must resolve it. `again`: the unknown call with the same intent. */
  error?: { code: string; message: string; asked?: true; again?: string }
  /** The call whose result it repeats. */
  replayOf?: string
}

/** The call's outcome according to the event; undefined if the event does not have one. `now`: the call's status just before the event. */
export function outcomeIn(event: SessionEvent, now: CallStatus | undefined): KnownOutcome | undefined {
  switch (event.type) {
    case 'tool_completed':
      return event.replayOf === undefined ? { status: 'completed', result: event } : { status: 'replayed', replayOf: event.replayOf }
    case 'tool_failed':
      return { status: statusOfFailure(event.code), error: { code: event.code, message: event.message } }
    case 'tool_unknown': {
      const { message, ask, again } = event
      // This call was not executed. The unknown outcome belongs to the call that it repeats.
      if (again !== undefined) return { status: 'skipped', error: { code: 'outcome_unknown', message, again } }
      return { status: 'unknown', error: { code: 'outcome_unknown', message, ...(ask && { asked: true }) } }
    }
    case 'tool_resolved':
      // This event provides an outcome only to a call that has ended.
      if (!isLate(event, now)) return undefined
      return event.happened ? { status: 'completed', result: event } : { status: 'failed', error: DID_NOT_HAPPEN }
    default:
      return undefined
  }
}

/** Whether the event reveals the outcome of a call that had ended without a known one. `now`: its status before the event. */
export function isLate(event: EventOf<'tool_resolved'>, now: CallStatus | undefined): boolean {
  return event.decision !== 'skip' && (now === undefined || hasEnded({ status: now }))
}

/** The error of a call whose outcome was unknown. */
export const DID_NOT_HAPPEN = { code: 'did_not_happen', message: 'It turned out later that the effect did not happen.' }

function statusOfFailure(code: string): 'denied' | 'skipped' | 'failed' {
  if (code === 'denied' || code === 'approval_expired') return 'denied'
  return code === 'skipped' ? 'skipped' : 'failed'
}

/** The new ids of the turn's calls that are made again, by their old ids, if the event chooses among the calls. */
export function madeAgain(event: SessionEvent): ReadonlyMap<string, string> {
  if (event.type !== 'recovery_started' || event.strategy !== 'selective') return NONE
  return new Map((event.redo ?? []).flatMap(({ callId, as }) => (as === callId ? [] : [[callId, as]])))
}

const NONE: ReadonlyMap<string, string> = new Map()

/**
 * Whether a choice among the turn's calls resets this call to the model's request, because it is made again, or skipped after it failed.
 */
export function isWithdrawn(event: SessionEvent, callId: string, { status }: { status: CallStatus }): boolean {
  if (event.type !== 'recovery_started' || event.strategy !== 'selective') return false
  return madeAgain(event).has(callId) || (status === 'failed' && (event.skip ?? []).includes(callId))
}

/** Whether the calls of the newest answer that are still open end with the event, without an outcome. */
export function abandonsCalls(event: SessionEvent): boolean {
  // A message took the session out of an error.
  if (event.type === 'run_started' || event.type === 'run_completed' || event.type === 'run_interrupted') return true
  const cut = cutOf(event, NO_RUN)
  return cut !== undefined && !cut.outcomes
}

/** The newest answer's calls that the event abandons, as they were before it. */
export function abandonedCalls(event: SessionEvent, calls: ReadonlyMap<string, TurnCall>): [callId: string, call: TurnCall][] {
  // The session starts over without them.
  if (event.type === 'session_started' || event.type === 'forked') return []
  const isAbandoned = abandonsCalls(event) ? () => true : (callId: string) => madeAgain(event).has(callId)
  return [...calls].filter(([callId, call]) => call.status !== 'requested' && !hasEnded(call) && isAbandoned(callId))
}

/** The outcome of an abandoned call: an effect may have happened if its body may have been entered. */
export function abandonedAs({
  status,
  effect,
  mayHaveBegun,
}: Pick<TurnCall, 'status' | 'effect' | 'mayHaveBegun'>): 'never_ran' | 'failed' | 'unknown' {
  if (status === 'awaiting_resolution') return 'unknown'
  if (!mayHaveBegun || effect === 'read') return 'never_ran'
  // An idempotent call can be repeated with its key.
  return effect === 'external' ? 'unknown' : 'failed'
}

/** Applies one event to the calls of the newest answer, in place. */
export function addToCalls(calls: TurnCalls, event: SessionEvent): void {
  if (event.type === 'model_completed') requestCalls(calls, event)
  else if (event.type === 'recovery_started' && event.strategy === 'selective') choose(calls, event)
  else if (abandonsCalls(event)) calls.clear()
  else if (event.type === 'session_resumed') resume(calls)
  else if ('callId' in event && event.callId !== undefined) {
    const call = calls.get(event.callId)
    if (call) addToCall(call, event)
  }
}

function requestCalls(calls: TurnCalls, { run, turn, content, calls: requested }: EventOf<'model_completed'>): void {
  calls.clear()
  const asked = content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))
  for (const { index, tool, effect, client } of requested) {
    const isAgent = client?.agent && { isAgent: true as const }
    const call = { status: 'requested', tool, effect, isClient: client !== undefined, ...isAgent, asked: asked[index] ?? null } as const
    calls.set(callIdOf(run, turn, index), call)
  }
}

/** Calls that are made again replace the original ones. */
function choose(calls: TurnCalls, event: EventOf<'recovery_started'>): void {
  const again = madeAgain(event)
  const before = [...calls]
  calls.clear()
  for (const [callId, call] of before) {
    const { mayHaveBegun: _, ...fresh } = call
    calls.set(again.get(callId) ?? callId, isWithdrawn(event, callId, call) ? { ...fresh, status: 'requested' } : call)
  }
}

/** Applies an event about the call, in place. */
export function addToCall(call: Omit<TurnCall, 'asked'>, event: SessionEvent): void {
  // An external call's attempt is resolved before anything else happens to the call.
  if (event.type === 'tool_attempt_failed' && call.effect === 'idempotent') call.mayHaveBegun = true
  if (event.type === 'hook_answered' && saidBy(event, 'modify')) call.isChanged = true
  call.status = statusAfter(event, call.status)
  // Another build has resolved the call again, or it was approved with other arguments.
  const resolution = event.type === 'tool_issued' || event.type === 'approval_decided' ? event.resolution : undefined
  if (!resolution) return
  delete call.isAgent
  Object.assign(call, { effect: resolution.effect, isClient: resolution.client !== undefined })
  if (resolution.client?.agent) call.isAgent = true
}

/** Notes that the workflow had ended, perhaps during an issued call. */
function resume(calls: TurnCalls): void {
  for (const call of calls.values()) if (call.status === 'issued') call.mayHaveBegun = true
}
