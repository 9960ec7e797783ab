// Calls of which nobody knows whether they happened: `verify` is asked once the attempt is dead, and what comes of it recorded.
import { CancellationScope, condition } from '@temporalio/workflow'
import type { VerifyToolResult } from '../activities/contract.ts'
import { MAX_DEATHS } from '../session/attempts.ts'
import { type Resolution, SETTLE_AFTER_MS } from '../session/events.ts'
import { answerIn, type Lost, verifications, whyLost } from './activities.ts'
import { type Call, inputOf, type Turn, whereOf } from './call.ts'
import { recorded } from './recorded.ts'

/** Between a tool's timeout and the moment its body can no longer be alive, where no supervisor can confirm the death. */
const DEATH_GRACE_MS = 5_000

/**
 * How long a call's body may be at work once its loss is known. It may have been entered just before that, however long ago its activity
 * was scheduled; and no two machines' clocks are compared.
 */
export function mayLiveForMs({ timeoutMs }: Resolution): number {
  return timeoutMs + DEATH_GRACE_MS
}

/** What a person is told of a call whose outcome is unknown. */
const UNKNOWN = 'The outcome of this call is unknown: it may or may not have taken effect. The session waits for somebody to say.'

/** What the model is told of a call whose outcome is unknown. */
export const UNKNOWN_TO_MODEL =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not and will not be repeated by itself. ' +
  'Do not ask for it again; tell the user, or check with a read.'

/** Nobody knows whether the call happened: asks `verify` once the attempt is dead (`lost`, just now), and records what comes of it. */
export async function settleUnknown(turn: Turn, call: Call, attempt: number, lost?: Lost): Promise<'settled' | 'did_not_happen'> {
  const { journal } = turn
  const where = whereOf(call)
  // Also an interrupted run records what became of what it had begun.
  return CancellationScope.nonCancellable(async () => {
    const isSurelyDead = !lost || (lost.how === 'died' && lost.confirmed)
    const verdict =
      (await lateVerdict(turn, call, isSurelyDead ? 0 : mayLiveForMs(call.resolution))) ?? (await settled(turn, call, attempt))
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

/** The same intent as an earlier call of unknown outcome: asks `verify` about that one again. */
export async function resolveEarlier(turn: Turn, callId: string): Promise<'happened' | 'did_not_happen' | undefined> {
  const { journal, alarms } = turn
  const earlier = journal.state.unknown[callId]
  if (!earlier) return 'did_not_happen'
  const where = { run: earlier.run, turn: earlier.turn, callId, tool: earlier.resolution.tool }
  const verdict: Verdict = await CancellationScope.nonCancellable(async () => {
    if (earlier.aliveForMs !== undefined) await condition(() => alarms.isDead(callId))
    if (earlier.input === undefined) return CANNOT_ASK
    return settled(turn, { ...where, ...earlier, input: earlier.input }, earlier.attempt)
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

const CANNOT_ASK = { kind: 'cannot_tell', message: 'The arguments of the call are not at hand any more.' } as const

/**
 * What `verify` says of the call. That it did not happen counts only when it is said again after a while: a request of a body that is dead,
 * or that has thrown, may still be under way.
 */
async function settled(turn: Turn, call: Call, attempt: number): Promise<Verdict> {
  const verdict = await verify(turn, call, attempt)
  if (verdict.kind === 'happened') return verdict
  const { settleAfterMs = SETTLE_AFTER_MS } = call.resolution
  const waitMs = verdict.kind === 'not_happened' ? settleAfterMs : 0
  const late = await lateVerdict(turn, call, waitMs)
  if (late) return late
  return waitMs > 0 ? verify(turn, call, attempt) : verdict
}

/** What `verify` says, or the worker itself: by a result that came late. */
type Verdict = VerifyToolResult & { by?: 'worker' }

/** The call's own result, should it come within so long. */
async function lateVerdict({ late }: Turn, { callId }: Call, waitMs: number): Promise<Verdict | undefined> {
  const result = await late.of(callId, waitMs)
  return result && { kind: 'happened', by: 'worker', ...recorded(result) }
}

async function verify(turn: Turn, call: Call, attempt: number): Promise<VerifyToolResult> {
  if (!call.resolution.verify) return { kind: 'cannot_tell', message: 'The tool has no verify.' }
  let deaths = 0
  let how: 'first' | 'again' = 'first'
  for (;;) {
    try {
      const { verifyTool } = verifications(call.resolution, how)
      const verdict = answerIn(await turn.pacing.schedule({ ...inputOf(turn, call), attempt }, verifyTool))
      if (verdict.kind !== 'not_begun') {
        turn.serving.served()
        return verdict
      }
      how = 'again'
      // Nothing is executed before somebody has answered, so what cannot be asked is as unknown as what cannot tell.
      if (turn.serving.isGraceOver()) return { kind: 'cannot_tell', message: 'No worker serves the tool.' }
      await turn.serving.notServed(`the tool "${call.tool}"`)
    } catch (error) {
      const lost = whyLost(error)
      // It is a read: a worker that died with it changes nothing, but it must not go on for ever.
      if (lost.how !== 'failed' && ++deaths < MAX_DEATHS) continue
      return { kind: 'cannot_tell', message: lost.how === 'cancelled' ? 'cancelled' : lost.message }
    }
  }
}
