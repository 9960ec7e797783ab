// A tool call, as the parts of the workflow pass it around, and how what became of it is recorded.
import type { ToolCallInput, RecordedResult } from '../../calls/activities.ts'
import { type Resolution, type ResolvedCall, OVERDUE_GRACE_MS } from '../../session/call-facts.ts'
import { traceOf } from '../../session/agents/traces.ts'
import { toolCallInput } from '../../session/decide.ts'
import type { RunState, CallState } from '../../session/state.ts'
import type { Journal } from '../journal.ts'
import type { CustomEvent } from '../../session/hooks/custom-events.ts'
import type { EventOf } from '../../session/events.ts'
import type { SpendNote } from '../../session/spending/spend-notes.ts'
import { defined } from '../../session/defined.ts'

/** A call with the data that its activities need. */
export interface WorkflowCall extends ResolvedCall {
  run: number
  turn: number
  callId: string
  tool: string
}

/** The members that each event about the call has. */
export function whereOf({ run, turn, callId, tool }: WorkflowCall) {
  return { run, turn, callId, tool }
}

/** The same for a call of the run's turn, as the session's state has it. */
export function whereIn({ run, turn }: Pick<RunState, 'run' | 'turn'>, { callId, resolution }: Pick<CallState, 'callId' | 'resolution'>) {
  return { run, turn, callId, tool: resolution.tool }
}

/** The input that all of the call's activities share. */
export function inputOf({ journal, run }: { journal: Journal; run: RunState }, call: WorkflowCall): ToolCallInput {
  return toolCallInput(journal.state, { ...run, run: call.run, trace: traceOf(run) }, call)
}

/**
 * How long a call's body may keep running once its loss is known. The body may have been entered just before the loss, even if its activity
 * was scheduled long ago. The calculation does not compare clocks of different machines.
 */
export function mayRunForMs({ timeoutMs }: Resolution): number {
  return timeoutMs + OVERDUE_GRACE_MS
}

const WORKFLOW_ENDED = 'The workflow ended while this call was running'

/** Ends a call whose workflow ended while it was in progress: the outcome of an `external` one is unknown, and the model is told that any other may have taken effect. */
export function recordEnded(journal: Journal, run: RunState, call: CallState): void {
  const { resolution, attempts = 0 } = call
  const about = { ...whereIn(run, call), attempt: attempts + 1 }
  if (resolution.effect === 'external') {
    journal.append({ type: 'tool_unknown', ...about, message: `${WORKFLOW_ENDED}.`, aliveForMs: mayRunForMs(resolution) })
  } else {
    journal.append({ type: 'tool_failed', ...about, code: 'interrupted', message: `${WORKFLOW_ENDED}, so it may have taken effect.` })
  }
}

/** The parts of an activity's result that its event has. */
export function recorded(result: RecordedResult): RecordedResult {
  const { value, content, blob, effectId } = result
  return {
    ...defined({ value, content, blob, effectId }),
  }
}

type ReportOrigin = Pick<EventOf<'emitted'>, 'run' | 'turn' | 'callId' | 'tool' | 'on' | 'hook'>

/** Records what an attempt or a hook reported through `ctx.emit` and `ctx.spend`. */
export function recordReports(
  journal: Journal,
  where: ReportOrigin,
  { attempt, emitted = [], spent = [] }: { attempt: number; emitted?: CustomEvent[]; spent?: SpendNote[] },
): void {
  for (const { name, data } of emitted) journal.append({ type: 'emitted', ...where, attempt, name, ...defined({ data }) })
  for (const { usd, tokens, note } of spent) journal.append({ type: 'spent', ...where, attempt, ...defined({ usd, tokens, note }) })
}
