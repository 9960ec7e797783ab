// One model call of a turn, and the compaction that it may need first.
import { patched } from '@temporalio/workflow'
import type { CallModelResult, NoAnswer, Ride } from '../../calls/activities.ts'
import { defined } from '../../session/defined.ts'
import { noAttempts } from '../../session/attempts.ts'
import type { BudgetRaise } from '../../session/spending/spend.ts'
import type { RunState } from '../../session/state.ts'
import { askUntilAnswered } from './ask-until-answered.ts'
import { countAttempts } from '../calls/attempts.ts'
import { compactConversation } from './compaction.ts'
import { recordHooks } from '../hooks.ts'
import type { Failure, Session } from '../session-parts.ts'

/** How a model call ended; `model_completed` itself is in the journal. */
export type ModelCallEnd =
  /** `rides`: the results of reads that ran within the call. */
  | { end: 'completed'; rides: readonly Ride[] }
  /** Part of the spent amount is an assumed cost, and too little of the budget is left. */
  | { end: 'held_up'; reason: string; raise: BudgetRaise[] | undefined }
  | { end: 'stopped'; by?: { hook: string; reason: string } }
  | ({ end: 'failed' } & Failure)

/** Makes the model call of `run`'s turn and records it. */
export function callModel(session: Session, run: RunState): Promise<ModelCallEnd> {
  const { journal, inherited } = session
  const { run: number, turn } = run
  return askUntilAnswered<CallModelResult, ModelCallEnd>(session, run, {
    what: 'model call',
    // After a recovery, attempt numbers continue and the retry budget starts over.
    attempts: countAttempts(
      (error) => journal.append({ type: 'model_attempt_failed', run: number, turn, error }),
      noAttempts({ attempts: run.modelAttempts, unexpected: journal.state.unexpected }),
    ),
    schedule: (activities, input) => inherited.model(number, turn) ?? activities.callModel({ ...input, rides: true }),
    note: (result) => recordHooks(journal, number, result.hooks),
    answered(result) {
      switch (result.kind) {
        case 'completed':
          recordAnswer(session, run, result)
          return { end: 'completed', rides: ridesIn(result) }
        case 'stopped':
          return { end: 'stopped', by: { hook: result.hook, reason: result.reason } }
        case 'compact':
          return compactConversation(session, run, result)
      }
    },
  })
}

/** Another build's worker may have executed this history and repeated the calls as activities. */
function ridesIn({ rides = [] }: { rides?: readonly Ride[] }): readonly Ride[] {
  return rides.length > 0 && patched('riding-reads') ? rides : []
}

function recordAnswer(
  { journal }: Session,
  { run, turn }: RunState,
  result: Exclude<CallModelResult, NoAnswer> & { kind: 'completed' },
): void {
  const { replaced, ...answer } = result
  if (replaced) journal.append({ type: 'content_replaced', run, turn, ...replaced })
  const { attempt, content, stopReason, usage, model, calls, hooksOfAnswer, metadata } = answer
  const { blob, provider, price, promptDigest, outputProblem, spent } = answer
  const about = {
    attempt,
    model,
    content,
    stopReason,
    usage,
    calls,
    ...(metadata && { metadata }),
    ...defined({ blob, provider, price, promptDigest, outputProblem, spent }),
  }
  journal.append({ type: 'model_completed', run, turn, ...about })
  recordHooks(journal, run, hooksOfAnswer)
}
