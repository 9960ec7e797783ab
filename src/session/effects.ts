// The effects of a session's calls, as far as they completed or may have: what no rollback and no restart undoes.
import type { EffectReport, SessionEvent } from './events.ts'
import { defined } from './defined.ts'

/** An effect, and the `seq` of the event that says how it stands. */
export interface NotedEffect extends EffectReport {
  seq: number
}

/** Effects by call, in the order of their outcomes. */
export interface Effects {
  /** The effect of each call's tool. */
  kinds: Map<string, string>
  byCall: Map<string, NotedEffect>
}

/** The effects of no events. */
export function noEffects(): Effects {
  return { kinds: new Map(), byCall: new Map() }
}

/** Notes what an event says of an effect, in place. */
export function noteEffect({ kinds, byCall }: Effects, event: SessionEvent): void {
  if (event.type === 'tool_issued') kinds.set(event.callId, event.effect)
  if (
    event.type === 'hook_answered' ||
    event.type === 'emitted' ||
    event.type === 'spent' ||
    !('callId' in event) ||
    kinds.get(event.callId) === 'read'
  )
    return
  const { callId, tool, seq } = event
  const note = (status: EffectReport['status'], effectId?: string): void => {
    byCall.delete(callId)
    byCall.set(callId, { callId, tool, status, ...defined({ effectId }), seq })
  }
  switch (event.type) {
    case 'tool_completed':
      if (event.replayOf === undefined) note('completed', event.effectId)
      return
    case 'tool_unknown':
      if (event.again === undefined) note('unknown')
      return
    case 'tool_resolved':
      if (event.happened) note('completed', event.effectId)
      else if (event.decision !== 'skip') byCall.delete(callId)
      return
    case 'tool_failed':
      // An idempotent call that failed after its body was entered may have taken effect.
      if (kinds.get(callId) === 'idempotent' && (event.attempt > 0 || event.code === 'interrupted')) note('unknown')
      return
    default:
  }
}

/** The effects with an outcome above `seq`, newest last. */
export function effectsAbove({ byCall }: Effects, seq: number): NotedEffect[] {
  return [...byCall.values()].filter((effect) => effect.seq > seq)
}

/** Forgets the effects with an outcome above `seq`, which were undone outside of pawl. */
export function forgetEffects(effects: Effects, seq: number): void {
  for (const { callId } of effectsAbove(effects, seq)) effects.byCall.delete(callId)
}
