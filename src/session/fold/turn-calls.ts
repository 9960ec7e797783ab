// The calls of one turn, folded from the events of that turn alone, for a state that could not hold them.
import { callIdOf } from '../ids.ts'
import type { SessionEvent } from '../events.ts'
import { saidBy } from '../hooks/hooks.ts'
import type { Json } from '../json.ts'
import { apply, emptyState } from './fold.ts'
import type { CallState } from '../state.ts'

/** The calls that the first event, a `model_completed`, requests, in their state after the last event. */
export function callsOfTurn([answer, ...events]: readonly SessionEvent[]): CallState[] {
  if (answer?.type !== 'model_completed') return []
  const { run, turn, seq, at } = answer
  // Events before the turn do not affect the turn's calls.
  const state = emptyState()
  apply(state, { v: 1, seq, at, type: 'run_started', run, messageId: '' })
  apply(state, { v: 1, seq, at, type: 'turn_started', run, turn, takes: [] })
  for (const event of [answer, ...events]) apply(state, event)
  return state.current?.calls ?? []
}

/** The same calls, each with the arguments that it was or would be executed with. */
export function requestedCallsOf(events: readonly SessionEvent[]): CallState[] {
  const inputs = new Map<string, Json>()
  for (const event of events) {
    if (event.type === 'model_completed') {
      const requested = event.content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))
      for (const [index, input] of requested.entries()) inputs.set(callIdOf(event.run, event.turn, index), input)
    }
    const changed = event.type === 'hook_answered' ? saidBy(event, 'modify') : undefined
    if (changed && event.type === 'hook_answered' && event.callId !== undefined) inputs.set(event.callId, changed)
    if (event.type === 'tool_issued') inputs.set(event.callId, event.input)
    if (event.type === 'approval_decided' && event.input !== undefined) inputs.set(event.callId, event.input)
  }
  return callsOfTurn(events).map((call) => ({ ...call, input: inputs.get(call.callId) ?? null }))
}
