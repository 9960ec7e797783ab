// A tool call, as the parts of the workflow pass it around.
import type { ToolCallInput } from '../../calls/activities.ts'
import type { Resolution } from '../../session/call-facts.ts'
import type { Json } from '../../session/json.ts'
import type { RunState } from '../../session/state.ts'
import type { Alarms } from '../alarms.ts'
import type { Flushing } from '../flushing.ts'
import type { Journal } from '../journal.ts'
import type { Inheritance } from '../inherited.ts'
import type { CallWaits } from './call-waits.ts'
import type { LateResults } from './late-results.ts'
import type { Pacing } from '../pacing.ts'
import type { ServingWatch } from '../awaiting-worker.ts'
import { toolCallInput } from '../../session/tool-call-input.ts'

/** The data that the calls of one turn share. */
export interface Turn {
  journal: Journal
  flushing: Flushing
  serving: ServingWatch
  pacing: Pacing
  run: RunState
  alarms: Alarms
  late: LateResults
  waits: CallWaits
  inherited: Inheritance
}

export interface Where {
  run: number
  turn: number
  callId: string
  tool: string
}

/** A call with the data that its activities need. */
export interface WorkflowCall extends Where {
  input: Json
  resolution: Resolution
}

export function whereOf({ run, turn, callId, tool }: WorkflowCall): Where {
  return { run, turn, callId, tool }
}

/** The input that all of the call's activities share. */
export function inputOf({ journal, run }: Pick<Turn, 'journal' | 'run'>, call: WorkflowCall): ToolCallInput {
  return toolCallInput(journal.state, { ...run, run: call.run }, call)
}
