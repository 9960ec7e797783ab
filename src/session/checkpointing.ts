// When a checkpoint is due: decided from the events alone, by the policy of the newest turn's agent.
import type { CheckpointPolicy, CheckpointTrigger, EventType, SessionEvent } from './events.ts'
import type { SessionState } from './state.ts'

/**
 * The reason why a checkpoint is due after `event`, which `state` has already folded; undefined if none is due. `isTime`: the interval of a
 * policy by time (`everyMs`) has passed.
 */
export function checkpointDue(state: SessionState, event: SessionEvent, isTime: boolean): string | undefined {
  if (event.type === 'checkpoint_made') return undefined
  const policy: CheckpointPolicy = state.facts?.checkpoint ?? 'turn'
  const turnEnded = endsTurn(state, event)
  if (turnEnded && state.plan?.unsaved === 'step_done' && state.facts?.plan) return 'step_done'
  if (typeof policy === 'object' && 'on' in policy) {
    const change = turnEnded && unsavedChanges(state).find((type) => policy.on.some((one) => one.type === type))
    if (change) return `event:${change}`
    return !isChange(event) && policy.on.some((one) => matches(one, event)) ? `event:${event.type}` : undefined
  }
  if (policy === 'tool_call') return turnEnded ? 'turn' : endsCall(event) ? 'tool_call' : undefined
  if (!turnEnded) return undefined
  if (policy === 'turn') return 'turn'
  if ('everyTurns' in policy) return state.turns - (state.checkpoint?.turns ?? 0) >= policy.everyTurns ? 'every_turns' : undefined
  return isTime ? 'every_ms' : undefined
}

/** A checkpoint within a turn does not cover the turn's changes to plan and memory: the one that covers them is made when the turn ends. */
function isChange({ type }: SessionEvent): boolean {
  return type === 'plan_changed' || type === 'memory_changed'
}

/** The types of the changes that no checkpoint covers yet. */
function unsavedChanges({ plan, memory }: SessionState): EventType[] {
  return [...(plan?.unsaved ? (['plan_changed'] as const) : []), ...(memory?.unsaved ? (['memory_changed'] as const) : [])]
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
