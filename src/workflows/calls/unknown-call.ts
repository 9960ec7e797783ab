// Calls whose outcome is unknown: calls `verify` once the attempt is dead, and records the outcome.
import { CancellationScope, condition, patched } from '@temporalio/workflow'
import type { VerifyToolResult } from '../../calls/activities.ts'
import { MAX_DEATHS } from '../../session/attempts.ts'
import { SETTLE_AFTER_MS } from '../../session/call-facts.ts'
import { answerIn, whyLost } from '../lost-activity.ts'
import { verifications } from '../scheduling.ts'
import { inputOf, whereIn, whereOf, type WorkflowCall, recorded, recordReports } from './call.ts'
import type { CallNeeds } from '../session-parts.ts'
import { eventsOf } from '../journal.ts'

/** The message to a person about an unknown outcome. */
const UNKNOWN = 'The outcome of this call is unknown: it may or may not have taken effect. The session waits for a person to resolve it.'

/** The message to the model about an unknown outcome. */
export const UNKNOWN_TO_MODEL =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not repeated and will not be repeated automatically. ' +
  'Do not request it again; tell the user, or check with a read.'

/** Calls `verify` once the attempt is dead, and records the result. `aliveMs`: how long it may be running from now on. */
export async function settleUnknown(
  needs: CallNeeds,
  call: WorkflowCall,
  attempt: number,
  aliveMs = 0,
): Promise<'settled' | 'did_not_happen'> {
  const { journal } = needs
  const where = whereOf(call)
  // The attempt has failed, and what follows may wait for as long as the tool may take.
  if (patched('flush-before-settling')) needs.flushing.nudge()
  // Even an interrupted run records the outcome of the calls that it had begun.
  return CancellationScope.nonCancellable(async () => {
    const verdict = (await ownResult(needs, call, aliveMs, MAY_RUN)) ?? (await settled(needs, call, attempt))
    if (verdict.kind === 'not_happened') {
      journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: false })
      return 'did_not_happen'
    }
    if (verdict.kind === 'happened') {
      const { by = 'verify' } = verdict
      journal.append({ type: 'tool_resolved', ...where, by, happened: true })
      journal.append({ type: 'tool_completed', ...where, attempt, ...recorded(verdict) })
      return 'settled'
    }
    const ask = call.resolution.onUnknown === 'ask'
    journal.append({ type: 'tool_unknown', ...where, attempt, message: ask ? UNKNOWN : UNKNOWN_TO_MODEL, ...(ask && { ask: true }) })
    return 'settled'
  })
}

/** Verifies an earlier, identical call with an unknown outcome again, before this one may run. */
export async function resolveEarlier(needs: CallNeeds, callId: string): Promise<'happened' | 'did_not_happen' | undefined> {
  const { journal, alarms } = needs
  const earlier = journal.state.unknown[callId]
  if (!earlier) return 'did_not_happen'
  const where = whereIn(earlier, { ...earlier, callId })
  const verdict: VerifyAnswer = await CancellationScope.nonCancellable(async () => {
    if (earlier.aliveForMs !== undefined) await condition(() => alarms.isDead(callId))
    if (earlier.input === undefined) return CANNOT_ASK
    return settled(needs, { ...where, ...earlier, input: earlier.input }, earlier.attempt)
  })
  if (verdict.kind === 'happened') {
    journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: true, ...recorded(verdict) })
    return 'happened'
  }
  if (verdict.kind === 'not_happened') {
    journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: false })
    return 'did_not_happen'
  }
  return undefined
}

const CANNOT_ASK = { kind: 'cannot_tell', message: 'The arguments of the call are no longer available.' } as const

/**
 * The answer of `verify`. "It did not happen" counts only if `verify` repeats it after `settleAfter`, because a request from a body that
 * died or threw may still be in flight.
 */
async function settled(needs: CallNeeds, call: WorkflowCall, attempt: number): Promise<VerifyAnswer> {
  const verdict = await verify(needs, call, attempt)
  if (verdict.kind === 'happened') return verdict
  const { settleAfterMs = SETTLE_AFTER_MS } = call.resolution
  const waitMs = verdict.kind === 'not_happened' ? settleAfterMs : 0
  const late = await ownResult(needs, call, waitMs, MAY_ARRIVE)
  if (late) return late
  return waitMs > 0 ? verify(needs, call, attempt) : verdict
}

/** The answer of `verify`, or a late result of the worker itself. */
type VerifyAnswer = VerifyToolResult & { by?: 'worker' }

const MAY_RUN = 'its worker was lost, and the attempt may be running until then'
const MAY_ARRIVE = 'its attempt was lost, and its request may arrive until then'

/** Waits for the call's own result for the given time. `why`: the reason shown for the wait. */
async function ownResult(
  { late, journal, waits }: CallNeeds,
  call: WorkflowCall,
  waitMs: number,
  why: string,
): Promise<VerifyAnswer | undefined> {
  if (waitMs > 0) waits.begin(call.callId, { for: 'verification', reason: why, forMs: waitMs })
  const result = await late.of(call.callId, waitMs)
  waits.end(call.callId)
  if (!result) return undefined
  recordReports(journal, whereOf(call), result)
  return { kind: 'happened', by: 'worker', ...recorded(result) }
}

async function verify(needs: CallNeeds, call: WorkflowCall, attempt: number): Promise<VerifyToolResult> {
  if (!call.resolution.verify) return { kind: 'cannot_tell', message: 'The tool has no verify.' }
  let deaths = 0
  let how: 'first' | 'again' = 'first'
  for (;;) {
    try {
      const { verifyTool } = verifications(call.resolution, how)
      const verdict = answerIn(await needs.pacing.schedule({ ...inputOf(needs, call), ...eventsOf(needs.journal), attempt }, verifyTool))
      if (verdict.kind !== 'not_begun') {
        needs.serving.served()
        needs.waits.end(call.callId)
        return verdict
      }
      how = 'again'
      // pawl executes nothing without an answer, so being unable to call `verify` counts as `cannot_tell`.
      if (needs.serving.isGraceOver()) return { kind: 'cannot_tell', message: 'No worker serves the tool.' }
      needs.waits.begin(call.callId, { for: 'worker', reason: `a worker that has the tool "${call.tool}"` })
      await needs.serving.notServed(`the tool "${call.tool}"`)
    } catch (error) {
      const lost = whyLost(error)
      // `verify` is a read, so a death does no harm, but deaths must be limited.
      if (lost.how !== 'failed' && ++deaths < MAX_DEATHS) continue
      return { kind: 'cannot_tell', message: lost.how === 'cancelled' ? 'cancelled' : lost.message }
    }
  }
}
