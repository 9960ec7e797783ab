// A tool call, as the parts of the workflow pass it around.
import type { ToolCallInput } from '../../calls/activities.ts'
import type { Resolution } from '../../session/call-facts.ts'
import type { Json } from '../../session/json.ts'
import type { RunState } from '../../session/state.ts'
import type { Session } from '../session-parts.ts'
import { toolCallInput } from '../../session/tool-call-input.ts'

/** What the calls of one turn share: parts of the session, and their run. */
export type CallNeeds = Pick<
  Session,
  'journal' | 'flushing' | 'serving' | 'pacing' | 'alarms' | 'late' | 'waits' | 'inherited' | 'heartbeatTimeoutMs'
> & {
  run: RunState
}

/** A call with the data that its activities need. */
export interface WorkflowCall {
  run: number
  turn: number
  callId: string
  tool: string
  input: Json
  resolution: Resolution
}

/** The members that each event about the call has. */
export function whereOf({ run, turn, callId, tool }: WorkflowCall) {
  return { run, turn, callId, tool }
}

/** The input that all of the call's activities share. */
export function inputOf({ journal, run }: Pick<CallNeeds, 'journal' | 'run'>, call: WorkflowCall): ToolCallInput {
  return toolCallInput(journal.state, { ...run, run: call.run }, call)
}
