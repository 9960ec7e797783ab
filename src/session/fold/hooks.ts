// The fold of hooks: what their answers change in the state, and whether any are due although no model call follows.
import type { EventOf } from '../events.ts'
import { updateCall } from './calls.ts'
import { saidBy } from '../hooks/hooks.ts'
import { isOutputCall } from '../built-in-tools/output.ts'
import { modelCallsOf } from '../turns.ts'
import type { SessionState } from '../state.ts'

/** Arguments that a hook changed replace the model's own. A text that a hook adds to a final answer lets the run continue. */
export function applyHookAnswer(state: SessionState, event: EventOf<'hook_answered'>): void {
  const args = saidBy(event, 'modify')
  if (args) {
    updateCall(state, event, (call) => {
      call.input = args
    })
  }
  const run = state.current
  if (event.on !== 'agentStop' || !run || saidBy(event, 'appendContext') === undefined) return
  // At its limit, the run could only fail, so the answer is final.
  if (modelCallsOf(run) >= (run.limits?.maxTurns ?? 0)) return
  if (run.phase === 'answered') run.phase = 'turn_due'
  else if (run.phase === 'tools' && isOutputCall(run)) run.continues = true
}

/**
 * Called when the run ends or fails. The hooks of a turn that no model call followed are due then. The hooks of a final answer ran together
 * with it, unless the answer is a call, whose outcome is known only now.
 */
export function noteHooksDue(state: SessionState): void {
  const { current, facts } = state
  const { run = 0, answerTurn: turn, phase, outputCall } = current ?? {}
  if (facts?.endHooks && turn !== undefined && (phase !== 'answered' || outputCall !== undefined)) state.hooksDue = { run, turn }
}
