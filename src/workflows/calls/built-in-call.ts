// Calls to pawl's own tools, answered here without an activity.
import { roomForMemory, roomForPlan } from '../../session/fold/kept.ts'
import type { Json } from '../../session/json.ts'
import { answerOnMemory } from '../../session/built-in-tools/memory-tools.ts'
import { OUTPUT_ACCEPTED } from '../../session/built-in-tools/output.ts'
import { answerOnPlan } from '../../session/built-in-tools/plan-tools.ts'
import type { CallProblem } from '../../session/built-in-tools/refused.ts'
import { type WorkflowCall, whereOf } from './call.ts'
import type { Journal } from '../journal.ts'

/** Answers the call. The change and its result are events of one task: there is no await between them. */
export function answerBuiltIn(journal: Journal, call: WorkflowCall): void {
  const { builtIn, output = call.input } = call.resolution
  const where = { ...whereOf(call), attempt: 0 }
  if (builtIn === 'output') {
    journal.append({ type: 'tool_completed', ...where, value: output, content: OUTPUT_ACCEPTED })
    return
  }
  const answer = builtIn === 'memory' ? changeMemory(journal, call) : changePlan(journal, call)
  if ('problem' in answer) journal.append({ type: 'tool_failed', ...where, ...answer.problem })
  else journal.append({ type: 'tool_completed', ...where, value: answer.value })
}

function changePlan(journal: Journal, call: WorkflowCall): { value: Json } | CallProblem {
  const { state } = journal
  const answer = answerOnPlan(call.tool, call.input, state.plan, roomForPlan(state))
  if ('problem' in answer) return answer
  const { change, text } = answer
  if (change) journal.append({ type: 'plan_changed', ...whereOf(call), version: (state.plan?.version ?? 0) + 1, change })
  return { value: text }
}

function changeMemory(journal: Journal, call: WorkflowCall): { value: Json } | CallProblem {
  const { state } = journal
  const bounds = { limits: state.facts?.memory ?? [], room: roomForMemory(state) }
  const answer = answerOnMemory(call.tool, call.input, state.memory, bounds)
  if ('problem' in answer) return answer
  const { change, value } = answer
  if (change) journal.append({ type: 'memory_changed', ...whereOf(call), version: (state.memory?.version ?? 0) + 1, change })
  return { value }
}
