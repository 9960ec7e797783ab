// Whether a session that continues without a part of its events makes the calls of that part again, with the same ids: only then are they
// recognised, and nothing happens twice.
import type { CallModelInput, ExecuteToolInput, PriorAnswer, PriorRequest } from '../calls/activities.ts'
import { isRunInProgress } from '../session/decide.ts'
import { defined } from '../session/defined.ts'
import { jsonBytes } from '../session/json.ts'
import { DECISIONS, PAUSES, SIGNALS, UPDATES } from '../session/protocol/protocol.ts'
import { changesNoRun } from '../session/protocol/requests.ts'
import type { SessionState } from '../session/state.ts'
import type { Activity } from './answered.ts'

/** One result of an activity carries the answers to the session that continues. */
const MAX_ANSWERS_BYTES = 1_500_000

/** Activities whose end is not stored. Those scheduled after `since` are not stored at all. */
interface UnstoredActivities {
  activities: readonly Activity[]
  /** The model calls among them that made calls with an effect. */
  made: { has(activity: Activity): boolean }
  since: number
}

/** A request that is passed on. `at`: its position in history; 0 if an earlier execution had received it. */
type PlacedRequest = Pick<PriorRequest, 'kind' | 'name' | 'details'> & { at: number }

interface TurnOf {
  run: number
  turn: number
}

/**
 * What a session that continues with these would lose: effects must not be repeated, nor decisions of clients vanish. Calls that the stored
 * events do not name can be made anew only in the first run that follows, if nothing but messages and decisions came in between. `state`:
 * the session as stored; undefined if nothing is stored, null if it cannot be read.
 */
export function lostWith(
  received: readonly PlacedRequest[],
  { activities, made, since }: UnstoredActivities,
  answers: readonly PriorAnswer[],
  state: SessionState | null | undefined,
): string | undefined {
  const scheduled = activities.filter(({ at }) => at > since)
  if (scheduled.some(({ name }) => name === 'loadFork')) return 'events of the session that it was forked from'
  if (jsonBytes(answers) > MAX_ANSWERS_BYTES) return 'results of calls that are too large to pass on'
  const calls = scheduled.filter((one) => one.name === 'executeTool' || made.has(one))
  const isNew = ({ input }: Activity): boolean => answers.some((one) => one.of === 'model' && isSameTurn(one, input as ExecuteToolInput))
  const areMadeAgain = calls.every((call) => isMadeAgain(call, scheduled, answers, state))
  const mayMove = calls.some((call) => isNew(call) && !received.every(keepsRun) && !onlyStops(call, received, scheduled, state))
  return !areMadeAgain || mayMove ? 'tool calls' : undefined
}

/** Whether runs and calls have the same numbers after the request as without it. */
function keepsRun(one: PlacedRequest): boolean {
  return one.kind === 'update' ? DECISIONS.includes(one.name) || changesNothing(one) : !isStop(one)
}

function isStop({ kind, name }: PlacedRequest): boolean {
  return kind === 'cancellation' || (kind === 'signal' && name === SIGNALS.interrupt)
}

/**
 * Whether nothing but one stop came alongside messages and pauses, and the call's run is the first one that follows. The session records the
 * call before it carries out the stop. However, a run that is about to be stopped takes only its opening message: if the model had seen others, the next
 * run would answer them again.
 */
function onlyStops(
  { input }: Activity,
  received: readonly PlacedRequest[],
  scheduled: readonly Activity[],
  state: SessionState | null | undefined,
): boolean {
  const { run } = input as ExecuteToolInput
  if (state === null || followingRuns(state).first !== run) return false
  if (received.some((one) => one.kind === 'update' && !changesNothing(one)) || received.filter(isStop).length > 1) return false
  const asked = scheduled.filter((one) => one.name === 'callModel' && (one.input as CallModelInput).run === run)
  const newest = asked.at(-1)
  if (!newest) return true
  const isSeen = ({ kind, name, at }: PlacedRequest): boolean =>
    (kind === 'due' || (kind === 'signal' && name === SIGNALS.message)) && at < newest.at
  const messages = received.filter(isSeen).length + (state?.inbox.length ?? 0)
  return messages <= (state?.current?.run === run ? 0 : 1)
}

/** Whether the update at most delays what the session does. */
const changesNothing = (one: PlacedRequest): boolean => PAUSES.includes(one.name) || one.name === UPDATES.resume || changesNoRun(one)

/**
 * Whether the session gets to the call with the same numbers. All messages are there from the beginning, so a run that ended without calls
 * may take those of the next one, and a turn without an answer those of the next turn: the model would be asked for the calls again.
 */
function isMadeAgain(
  { at, input }: Activity,
  scheduled: readonly Activity[],
  answers: readonly PriorAnswer[],
  state: SessionState | null | undefined,
): boolean {
  const call = input as ExecuteToolInput
  const { first, last } = followingRuns(state)
  if (call.run > last) return false
  const answered = answers.flatMap((one) => (one.of === 'model' && one.result.kind === 'completed' && one.run >= first ? [one] : []))
  if (answered.some(({ run }) => run < call.run)) return false
  const asked = scheduled.filter((one) => one.name === 'callModel' && one.at < at).map((one) => one.input as CallModelInput)
  return asked.every((turn) => {
    return isSameTurn(turn, call) || isBeingAsked(state, turn) || answered.some((one) => isSameTurn(one, turn))
  })
}

/** The runs in which the session can be next. */
function followingRuns(state: SessionState | null | undefined): { first: number; last: number } {
  if (state === null) return { first: 0, last: Number.POSITIVE_INFINITY }
  const { run, error = null } = state ?? { run: 0 }
  if (!state || !isRunInProgress(state)) return { first: run + 1, last: run + 1 }
  // Whether a message took part in the attempt that left the error is not known.
  return { first: run, last: error?.nextAttemptAt === undefined ? run + 1 : 0 }
}

/** Whether the stored session waits for the model in this turn: whatever answer there is, is inherited. */
function isBeingAsked(state: SessionState | null | undefined, turn: TurnOf): boolean {
  const { status, current } = state ?? {}
  return status === 'running' && current?.phase === 'model' && isSameTurn(current, turn)
}

const isSameTurn = (one: TurnOf, { run, turn }: TurnOf): boolean => one.run === run && one.turn === turn

/**
 * An answer that followed in the same turn shows that the session left its error. It does not enter it again, because a message that arrives
 * meanwhile would begin another turn.
 */
export function withoutFailures(answers: readonly PriorAnswer[]): PriorAnswer[] {
  return answers.map((one, place) => {
    if (one.of !== 'model' || one.result.kind !== 'failed') return one
    const isAnswered = answers
      .slice(place)
      .some((later) => later.of === 'model' && isSameTurn(later, one) && later.result.kind === 'completed')
    if (!isAnswered) return one
    const { failed, facts, spent, hooks } = one.result
    return { ...one, result: { kind: 'again', afterMs: 0, ...defined({ failed, facts, spent, hooks }) } }
  })
}
