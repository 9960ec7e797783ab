// One model call of a turn, and the compaction that it may need first.
import { patched } from '@temporalio/workflow'
import type { CallModelResult, ExecuteToolResult, NoAnswer, Ride } from '../../calls/activities.ts'
import { defined } from '../../session/defined.ts'
import { noAttempts } from '../../session/attempts.ts'
import type { RunState } from '../../session/state.ts'
import { askUntilAnswered, type UnansweredEnd } from './ask-until-answered.ts'
import { countAttempts } from '../calls/attempts.ts'
import { compactConversation } from './compaction.ts'
import { recordHooks } from '../hooks.ts'
import { lostRideIn, type RideLost } from '../lost-activity.ts'
import type { Session } from '../session-parts.ts'

/** How a model call ended; `model_completed` itself is in the journal. */
export type ModelCallEnd = UnansweredEnd | { end: 'completed'; rides: Rides }

/** The outcomes of the calls that ran as part of the model call, by their positions in the answer. */
export type Rides = ReadonlyMap<number, ExecuteToolResult | RideLost>

/** Makes the model call of `run`'s turn and records it. */
export function callModel(session: Session, run: RunState): Promise<ModelCallEnd> {
  const { journal, inherited } = session
  const { run: number, turn } = run
  const rides = new Map<number, ExecuteToolResult | RideLost>()
  return askUntilAnswered<CallModelResult, ModelCallEnd>(session, run, {
    what: 'model call',
    // After a recovery, attempt numbers continue and the retry budget starts over.
    attempts: countAttempts(
      (error) => journal.append({ type: 'model_attempt_failed', run: number, turn, error }),
      noAttempts({ attempts: run.modelAttempts, unexpected: journal.state.unexpected }),
    ),
    schedule: (activities, input) => inherited.model(number, turn) ?? activities.callModel({ ...input, rides: true, ridesEffects: true }),
    note: (result) => recordHooks(journal, number, result.hooks),
    lost(lost) {
      const ride = lostRideIn(lost)
      if (!ride) return undefined
      rides.set(ride.call.index, ride.lost)
      return ride.call.answered as CallModelResult
    },
    answered(result) {
      switch (result.kind) {
        case 'completed':
          recordAnswer(session, run, result)
          for (const { index, result: outcome } of ridesIn(result)) rides.set(index, outcome)
          return { end: 'completed', rides }
        case 'stopped':
          return { end: 'stopped', by: { hook: result.hook, reason: result.reason } }
        case 'compact':
          return compactConversation(session, run, result)
      }
    },
  })
}

/** The outcomes. Another build's worker may have executed this history and repeated the calls as activities. */
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
