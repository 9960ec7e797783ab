// The effects of a session's calls that completed or may have completed. Neither a rollback nor a restart undoes them.
import type { EffectReport } from './call-facts.ts'
import type { SessionEvent } from './events.ts'
import type { Json } from './json.ts'
import { defined } from './defined.ts'
import { cutText } from './protocol/texts.ts'

/** An effect, and the `seq` of the event that determined its current status. */
export interface NotedEffect extends EffectReport {
  seq: number
  /** The `seq` of its first outcome. */
  since: number
  /** The beginning of its arguments, as JSON; absent if the events do not contain the call's `tool_issued`. */
  args?: string
}

/** How many bytes of arguments are kept. */
const ARGS_BYTES = 300

/** Effects by call, in the order of their outcomes. */
export interface Effects {
  /** The effect of each call's tool. */
  kinds: Map<string, string>
  /** The beginning of each effect's arguments, by call. */
  args: Map<string, string>
  byCall: Map<string, NotedEffect>
}

/** No effects yet. */
export function noEffects(): Effects {
  return { kinds: new Map(), args: new Map(), byCall: new Map() }
}

/** Notes what an event says about an effect, in place. */
export function noteEffect({ kinds, args, byCall }: Effects, event: SessionEvent): void {
  if (event.type === 'tool_issued') kinds.set(event.callId, event.effect)
  const given = event.type === 'tool_issued' || event.type === 'approval_decided' ? event.input : undefined
  if (given !== undefined && 'callId' in event && kinds.get(event.callId) !== 'read') {
    args.set(event.callId, beginningOf(given))
  }
  if (
    event.type === 'hook_answered' ||
    event.type === 'emitted' ||
    event.type === 'spent' ||
    event.type === 'allowance_raised' ||
    !('callId' in event) ||
    kinds.get(event.callId) === 'read'
  )
    return
  const { callId, tool, seq } = event
  const note = (status: EffectReport['status'], effectId?: string): void => {
    const { since = seq } = byCall.get(callId) ?? {}
    byCall.delete(callId)
    byCall.set(callId, { callId, tool, status, ...defined({ effectId, args: args.get(callId) }), seq, since })
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

function beginningOf(args: Json): string {
  try {
    return cutText(JSON.stringify(args), ARGS_BYTES)
  } catch {
    // The arguments are nested too deep for the stack.
    return '…'
  }
}

/** The effects with an outcome above `seq`, newest last. */
export function effectsAbove({ byCall }: Effects, seq: number): NotedEffect[] {
  return [...byCall.values()].filter((effect) => effect.seq > seq)
}

/** Forgets the effects with an outcome above `seq`, because they were undone outside of pawl. */
export function forgetEffects(effects: Effects, seq: number): void {
  for (const { callId } of effectsAbove(effects, seq)) effects.byCall.delete(callId)
}
