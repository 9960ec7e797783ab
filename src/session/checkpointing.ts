// Decides when a checkpoint is due, from the events alone and by the policy of the newest turn's agent. A checkpoint marks a point between
// turns, so a request within a turn waits in the state until the turn has closed.
import { defined } from './defined.ts'
import type { CheckpointPolicy, CheckpointTrigger } from './agent-facts.ts'
import type { SessionEvent } from './events.ts'
import { jsonBytes } from './json.ts'
import type { CheckpointDue, SessionState } from './state.ts'

/**
 * How many bytes of reasons, as JSON, a state keeps. The size of a state is bounded. Any single reason of 1,000 characters fits, and the
 * events have all reasons.
 */
const REASONS_BYTES = 6_100

/** Whether calls of the newest answer have no result yet. A checkpoint here would mark the point before the answer. */
export function isTurnOpen({ current }: SessionState): boolean {
  return current?.phase === 'tools'
}

/** Notes in the state which checkpoint the event, already folded, requests. */
export function noteCheckpointDue(state: SessionState, event: SessionEvent): void {
  const due = requestIn(state, event)
  if (!due) return
  const before = state.checkpointDue
  const reasons = [...new Set([...(before?.reasons ?? []), ...due.reasons])]
  const kept = !before || jsonBytes(reasons) <= REASONS_BYTES ? reasons : before.reasons
  state.checkpointDue = { reasons: kept, ...defined({ by: due.by ?? before?.by }) }
}

/** The checkpoint that the event requests, whether or not its turn is open. */
function requestIn({ facts }: SessionState, event: SessionEvent): CheckpointDue | undefined {
  if (event.type === 'checkpoint_made') return undefined
  if (event.type === 'checkpoint_requested') return { reasons: [event.reason], ...defined({ by: event.by }) }
  const policy: CheckpointPolicy = facts?.checkpoint ?? 'turn'
  const reasons: string[] = []
  if (facts?.plan && completesStep(event)) reasons.push('step_done')
  if (policy === 'tool_call' && endsCall(event)) reasons.push('tool_call')
  if (typeof policy === 'object' && 'on' in policy && policy.on.some((one) => matches(one, event))) reasons.push(`event:${event.type}`)
  return reasons.length > 0 ? { reasons } : undefined
}

/**
 * The checkpoint to make after `event`, which `state` has already folded; undefined if none is due here. `isTime`: whether the interval of
 * a policy by time (`everyMs`) has passed.
 */
export function checkpointAfter(state: SessionState, event: SessionEvent, isTime: boolean): CheckpointDue | undefined {
  // The event that closes a session stays its last one, so the next event makes a checkpoint that is due.
  if (event.type === 'checkpoint_made' || event.type === 'session_closed' || isTurnOpen(state)) return undefined
  // A recovery has gone back completely only once it has ended.
  if (event.type === 'recovery_started') return undefined
  const { reasons: requested = [], by } = state.checkpointDue ?? {}
  const ofTurn = endsTurn(state, event) ? reasonOfTurn(state, event, isTime) : undefined
  const reasons = [...requested, ...(ofTurn === undefined ? [] : [ofTurn])]
  return reasons.length > 0 ? { reasons, ...defined({ by }) } : undefined
}

function reasonOfTurn({ facts, turns, checkpoint }: SessionState, event: SessionEvent, isTime: boolean): string | undefined {
  const policy: CheckpointPolicy = facts?.checkpoint ?? 'turn'
  if (policy === 'turn') return 'turn'
  // A turn with calls has already requested one.
  if (policy === 'tool_call') return endsCall(event) ? undefined : 'turn'
  if ('everyTurns' in policy) return turns - (checkpoint?.turns ?? 0) >= policy.everyTurns ? 'every_turns' : undefined
  return 'everyMs' in policy && isTime ? 'every_ms' : undefined
}

/** When the next checkpoint of a policy by time is due, in milliseconds since 1970; undefined for any other policy. */
export function checkpointAt({ facts, checkpoint, createdAt }: SessionState): number | undefined {
  const policy = facts?.checkpoint
  return typeof policy === 'object' && 'everyMs' in policy ? (checkpoint?.at ?? createdAt) + policy.everyMs : undefined
}

function matches(trigger: CheckpointTrigger, event: SessionEvent): boolean {
  if (trigger.type !== event.type) return false
  if (trigger.name !== undefined && !(event.type === 'emitted' && event.name === trigger.name)) return false
  if (trigger.tool !== undefined && !('tool' in event && event.tool === trigger.tool)) return false
  return trigger.milestone === undefined || (event.type === 'milestone_reached' && event.name === trigger.milestone)
}

/** After the last result of a turn or the end of a run, when no call in the transcript is open. */
function endsTurn(state: SessionState, event: SessionEvent): boolean {
  if (event.type === 'run_completed' || event.type === 'run_interrupted') return state.turns > (state.checkpoint?.turns ?? 0)
  return endsCall(event) && state.current?.phase === 'turn_due'
}

function endsCall(event: SessionEvent): boolean {
  return event.type === 'tool_completed' || event.type === 'tool_failed' || (event.type === 'tool_unknown' && !event.ask)
}

function completesStep(event: SessionEvent): boolean {
  return event.type === 'plan_changed' && event.change.do === 'update_step' && event.change.status === 'done'
}
