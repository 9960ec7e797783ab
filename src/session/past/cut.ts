// What an event removes from a session. This is the only place that decides it, for every event that goes back.
import type { EventOf, SessionEvent } from '../events.ts'
import { requestIdOf } from '../ids.ts'

/** A part of the past that an event removes from the session. */
export interface Cut {
  /** `seq` of the event. */
  at: number
  /** Everything up to and including this event stays. */
  after: number
  /** Only this run's answers and calls leave; if absent, everything after `after` does. */
  run?: number
  /** Only these outcomes leave, of the turn whose answer is `after`. */
  outcomes?: LeavingOutcomes
  /**
   * The users' messages that turns have accepted after `after`. `stay`: they stay in the transcript, without the answers; `wait`: they wait
   * for another run; `leave`: they are archived, too.
   */
  taken: 'stay' | 'wait' | 'leave'
  /** Messages that no turn has accepted leave if they arrived by this event; 0 if they all stay. */
  waiting: number
  /** The `seq` of messages that wait again although the others leave. */
  again: readonly number[]
}

/** The outcomes that leave because a later outcome of the same call replaces them. */
interface LeavingOutcomes {
  /** Calls that are made again, as another generation. */
  madeAgain: ReadonlySet<string>
  /** Calls that are skipped, by request: their failures leave. */
  skipped: ReadonlySet<string>
}

export interface NewestRun {
  run: number
  /** `seq` of its `run_started`. */
  seq: number
}

/** The newest run of a session without one. */
export const NO_RUN: NewestRun = { run: 0, seq: 0 }

/** What the event removes; undefined if it removes nothing. `newest`: the newest run before it. */
export function cutOf(event: SessionEvent, newest: NewestRun): Cut | undefined {
  switch (event.type) {
    case 'session_started':
      return { at: event.seq, after: 0, taken: 'leave', waiting: event.seq, again: [] }
    case 'forked':
      return { at: event.seq, after: event.seq, taken: 'stay', waiting: event.seq, again: [] }
    case 'rolled_back':
      return rollback(event, newest)
    case 'recovery_started':
      return recovery(event, newest)
    default:
      return undefined
  }
}

function rollback({ seq: at, toSeq: after, upToSeq, keepsRun, again }: EventOf<'rolled_back'>, { run }: NewestRun): Cut {
  const requeued = (again?.messages ?? []).map((message) => message.seq)
  return { at, after, taken: 'leave', waiting: keepsRun ? 0 : upToSeq, again: requeued, ...(keepsRun && { run }) }
}

function recovery(event: EventOf<'recovery_started'>, { run, seq }: NewestRun): Cut | undefined {
  const known = { at: event.seq, waiting: 0, again: [] }
  switch (event.strategy) {
    case 'restart_run':
      return { ...known, after: seq - 1, run, taken: 'wait' }
    case 'abandon':
      return { ...known, after: seq, run, taken: 'stay' }
    case 'restart_from_last_effect':
      return { ...known, after: event.toSeq ?? event.seq, run, taken: 'stay' }
    case 'selective':
      return { ...known, after: event.toSeq ?? event.seq, run, taken: 'stay', outcomes: leavingOutcomes(event) }
    default:
      return undefined
  }
}

function leavingOutcomes({ redo = [], skip = [] }: EventOf<'recovery_started'>): LeavingOutcomes {
  const again = redo.flatMap(({ callId, as }) => (as === callId ? [] : [callId]))
  return { madeAgain: new Set(again), skipped: new Set(skip.map(requestIdOf)) }
}

/**
 * Whether the cut removes the event. Does not cover users' messages; see `visible.ts`. `firstOutcome`: for
 * a call's own event, the `seq` of the first outcome of the call; undefined if it has none, or none that counts.
 */
export function takesOut(cut: Cut, event: SessionEvent, firstOutcome: number | undefined): boolean {
  if (cut.outcomes) return isLeavingOutcome(cut.outcomes, event)
  if (event.seq <= cut.after) return false
  // Each call that stays keeps its newest known outcome.
  if (firstOutcome !== undefined && firstOutcome <= cut.after) return false
  return cut.run === undefined || ('run' in event && event.run === cut.run)
}

/** Hooks' answers about the request stay, because hooks are not asked about a request again. */
function isLeavingOutcome({ madeAgain, skipped }: LeavingOutcomes, event: SessionEvent): boolean {
  const callId = 'callId' in event ? event.callId : undefined
  if (callId === undefined || ('on' in event && event.on === 'preToolUse')) return false
  const isAboutOutcome = event.type === 'tool_failed' || ('hook' in event && event.hook !== undefined)
  return madeAgain.has(callId) || (isAboutOutcome && skipped.has(requestIdOf(callId)))
}

/**
 * Whether the cut ends a turn that had begun without an answer: the session continues with the calls of the turn before it. The users'
 * messages that the turn has accepted stay.
 */
export function endsBegunTurn({ at, after, run, outcomes }: Cut, event: SessionEvent): boolean {
  return outcomes !== undefined && event.type === 'turn_started' && event.run === run && event.seq > after && event.seq < at
}
