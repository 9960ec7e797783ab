// Which trace a run of a child belongs to: that of the call that it answers.
import { defined } from '../defined.ts'
import type { SessionState } from '../state.ts'
import type { AnsweredCall, TraceRoot } from './agent-call-facts.ts'

/** The call that a run which begins now answers; undefined if no question is open. */
export function answeredCall({ caller }: Pick<SessionState, 'caller'>): AnsweredCall | undefined {
  if (!caller?.call || caller.outcome) return undefined
  const { run, callId, stretch, trace, background } = caller.call
  return { sessionId: caller.sessionId, run, callId, ...defined({ stretch, trace, background }) }
}

/** The trace of the run if it is not its own: that of the call that waits for it. */
export function traceOf({ answers }: { answers?: AnsweredCall | undefined }): TraceRoot | undefined {
  if (!answers || answers.background) return undefined
  const { sessionId, run, stretch, trace } = answers
  return trace ?? { sessionId, run, ...defined({ stretch }) }
}
