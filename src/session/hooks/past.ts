// The part of a session's past that hooks may still have to see. Executors fold it from the events, for agents that have hooks.
import { callIdOf, requestIdOf } from '../ids.ts'
import type { EventOf, SessionEvent } from '../events.ts'
import type { HookEvent } from './hooks.ts'
import { saidBy } from './hooks.ts'
import type { Json } from '../json.ts'
import {
  abandonsCalls,
  hasEnded,
  type KnownOutcome,
  type OutcomeEvent,
  outcomeIn,
  statusAfter,
  type TurnCall,
} from '../past/call-status.ts'
import { cutOf, type NewestRun, NO_RUN, takesOut } from '../past/cut.ts'
import { cutOutcomes, type FirstOutcomes, firstOutcomeOf, noOutcomes, noteOutcome, requestOf } from '../past/outcomes.ts'

interface CallOutcome {
  turn: number
  callId: string
  tool: string
  /** The arguments with which it was executed. */
  args: Json
  result?: Json
  /** Set if the call failed or was denied, or if its outcome is unknown. */
  error?: { code: string; message: string }
}

/** What an event says about hooks. */
type HookNote = { event: SessionEvent } & (
  | { is: 'answer'; turn: number }
  | { is: 'outcome'; outcome: CallOutcome }
  | { is: 'ran'; hook: string; on: HookEvent; place: string }
  | { is: 'end' }
)

/** The newest run's past, and calls whose outcome became known later. */
export interface HookPast {
  /** In the order of the events. */
  noted: HookNote[]
  /** Calls without an outcome yet, and unknown ones. */
  calls: Map<string, Pick<CallOutcome, 'turn' | 'tool' | 'args'> & Pick<TurnCall, 'status'>>
  /** Results of completed effects by call, for replays. */
  results: Map<string, Json>
  newest: NewestRun
  outcomes: FirstOutcomes
}

/** An empty past. */
export function noPast(): HookPast {
  return { noted: [], calls: new Map(), results: new Map(), newest: NO_RUN, outcomes: noOutcomes() }
}

/** A place where hooks run: one event, of one turn or call. */
export interface HookPlace {
  on: HookEvent
  turn: number
  outcome?: CallOutcome
}

/** The places before the model call of a turn, in the order in which their hooks run; the hooks of all places in one list run together. */
export function placesBefore(past: HookPast, turn: number): HookPlace[][] {
  const isFirst = past.noted.every(({ is }) => is !== 'answer')
  return [...placesAfter(past), isFirst ? [{ on: 'agentStart', turn }] : [], [{ on: 'turnStart', turn }]]
}

/** The places after the newest turn: its calls' outcomes, and its end. Empty if the turn's hooks ran or were abandoned with its run. */
export function placesAfter({ noted }: HookPast): HookPlace[][] {
  const since = startOfDue(noted)
  const outcomes = noted.slice(since + 1).flatMap((one) => (one.is === 'outcome' ? [one.outcome] : []))
  const answer = noted[since]
  return [
    outcomes.map((outcome) => ({ on: outcome.error ? 'postToolUseFailure' : 'postToolUse', turn: outcome.turn, outcome }) as const),
    answer?.is === 'answer' ? [{ on: 'turnEnd', turn: answer.turn }] : [],
  ]
}

/** The index at which the newest turn, or the time after the end of its run, begins; -1 before the first answer. */
function startOfDue(noted: readonly HookNote[]): number {
  return noted.findLastIndex(({ is }) => is === 'answer' || is === 'end')
}

/** Whether the hook has answered at that place. Each answer counts once. */
export function hasRun({ noted }: HookPast, place: HookPlace, hook: string): boolean {
  const name = nameOf(place)
  return noted.some((one) => one.is === 'ran' && one.hook === hook && one.on === place.on && one.place === name)
}

/** The name has no turn for the start of a run, which happens once. */
function nameOf({ on, turn, outcome }: HookPlace): string {
  return on === 'agentStart' ? '' : (outcome?.callId ?? `${turn}`)
}

/** Adds one event, in place. */
export function addToHookPast(past: HookPast, event: SessionEvent): void {
  goBack(past, event)
  noteOutcome(past.outcomes, event)
  if (abandonsCalls(event)) abandonCalls(past)
  switch (event.type) {
    case 'session_started':
      Object.assign(past, noPast())
      return
    case 'run_started':
      startRun(past, event)
      return
    case 'model_completed':
      noteAnswer(past, event)
      return
    case 'tool_issued':
      past.calls.set(event.callId, { turn: event.turn, tool: event.tool, args: event.input, status: 'issued' })
      return
    case 'approval_decided':
      if (event.input !== undefined)
        past.calls.set(event.callId, { turn: event.turn, tool: event.tool, args: event.input, status: 'issued' })
      return
    case 'tool_completed':
    case 'tool_failed':
    case 'tool_unknown':
    case 'tool_resolved':
      noteEnding(past, event)
      return
    case 'hook_answered':
      noteRun(past, event)
      return
    case 'hooks_ended':
      past.noted.push({ event, is: 'end' })
      return
    default:
  }
}

/** Keeps outcomes that became known after the end of their run and that no hook has seen. */
function startRun(past: HookPast, { run, seq }: EventOf<'run_started'>): void {
  const { noted, outcomes } = past
  past.newest = { run, seq }
  const seen = new Set(noted.flatMap((one) => (one.is === 'ran' ? [one.place] : [])))
  past.noted = noted.slice(startOfDue(noted) + 1).filter((one) => one.is === 'outcome' && !seen.has(one.outcome.callId))
  const kept = new Set(past.noted.map(({ event }) => requestOf(event)))
  for (const [callId, { status }] of past.calls) if (status === 'unknown') kept.add(requestIdOf(callId))
  for (const request of outcomes.first.keys()) if (!kept.has(request)) outcomes.first.delete(request)
}

/** Removes what the session archives. Hooks for it are no longer due, and their answers no longer count. */
function goBack(past: HookPast, event: SessionEvent): void {
  const cut = cutOf(event, past.newest)
  if (!cut) return
  past.noted = past.noted.filter((one) => !takesOut(cut, one.event, firstOutcomeOf(past.outcomes, one.event)))
  cutOutcomes(past.outcomes, cut)
}

/** From here on, an outcome that becomes known is late. */
function abandonCalls({ calls }: HookPast): void {
  for (const call of calls.values()) if (!hasEnded(call)) call.status = 'unknown'
}

function noteAnswer({ noted, calls }: HookPast, event: EventOf<'model_completed'>): void {
  const { run, turn, content } = event
  noted.push({ event, is: 'answer', turn })
  let index = 0
  for (const block of content) {
    if (block.type === 'tool_use')
      calls.set(callIdOf(run, turn, index++), { turn, tool: block.name, args: block.input, status: 'requested' })
  }
}

function noteEnding(past: HookPast, event: OutcomeEvent): void {
  const { callId, tool, turn } = event
  const call = past.calls.get(callId)
  // An unknown outcome becomes known once.
  if (event.type === 'tool_resolved' && !call) return
  const outcome = outcomeIn(event, call?.status)
  if (call) call.status = statusAfter(event, call.status)
  if (!outcome || outcome.error?.asked) return
  // The outcome of a skipped call may be unknown, too.
  if (outcome.status !== 'unknown' && outcome.status !== 'skipped') past.calls.delete(callId)
  const { args = null } = call ?? {}
  const ending = endingOf(past, outcome)
  if (ending.result !== undefined) past.results.set(callId, ending.result)
  // A later outcome of the same call replaces the earlier one, and hooks see it, too.
  past.noted = past.noted.filter((one) => !isAbout(one, callId))
  past.noted.push({ event, is: 'outcome', outcome: { turn, callId, tool, args, ...ending } })
}

function endingOf({ results }: HookPast, { error, result, replayOf }: KnownOutcome): Pick<CallOutcome, 'result' | 'error'> {
  if (error) return { error: { code: error.code, message: error.message } }
  return { result: (replayOf === undefined ? result?.value : results.get(replayOf)) ?? null }
}

function noteRun({ noted, calls }: HookPast, event: EventOf<'hook_answered'>): void {
  const { callId, hook, on, turn } = event
  const place = on === 'agentStart' ? '' : (callId ?? `${turn}`)
  noted.push({ event, is: 'ran', hook, on, place })
  const args = saidBy(event, 'modify')
  const call = callId === undefined ? undefined : calls.get(callId)
  if (args && call) call.args = args
}

function isAbout(one: HookNote, callId: string): boolean {
  if (one.is === 'outcome') return one.outcome.callId === callId
  return one.is === 'ran' && one.place === callId
}
