// Calls that were in progress when their workflow ended, and whose results are unknown.
import type { CallState, RunState } from '../../session/state.ts'
import type { Journal } from '../journal.ts'
import { mayLiveForMs } from './may-live.ts'

const MESSAGE = 'The workflow ended while this call was running'

/** Ends the call: the outcome of an `external` one is unknown, and the model is told that any other may have taken effect. */
export function recordEnded(journal: Journal, { run, turn }: RunState, { callId, resolution, attempts = 0 }: CallState): void {
  const about = { run, turn, callId, tool: resolution.tool, attempt: attempts + 1 }
  if (resolution.effect === 'external') {
    journal.append({ type: 'tool_unknown', ...about, message: `${MESSAGE}.`, aliveForMs: mayLiveForMs(resolution) })
  } else {
    journal.append({ type: 'tool_failed', ...about, code: 'interrupted', message: `${MESSAGE}, so it may have taken effect.` })
  }
}
