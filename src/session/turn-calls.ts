// The calls of one turn, folded from the events of that turn alone, for a state that could not hold them.
import type { SessionEvent } from './events.ts'
import { apply, initialState } from './fold.ts'
import type { CallState } from './state.ts'

/** An empty state: events before the turn do not affect its calls. */
const BEFORE = {
  v: 1,
  seq: 0,
  at: 0,
  type: 'session_started',
  sessionId: '',
  agent: '',
  context: null,
  executionId: '',
  coreVersion: 1,
} as const

/** The calls that the first event, a `model_completed`, requests, as they are after the last event. */
export function callsOfTurn([answer, ...events]: readonly SessionEvent[]): CallState[] {
  if (answer?.type !== 'model_completed') return []
  const { run, turn, seq, at } = answer
  const state = initialState({ ...BEFORE, tags: [] })
  apply(state, { v: 1, seq, at, type: 'run_started', run, messageId: '' })
  apply(state, { v: 1, seq, at, type: 'turn_started', run, turn, takes: [] })
  for (const event of [answer, ...events]) apply(state, event)
  return state.current?.calls ?? []
}
