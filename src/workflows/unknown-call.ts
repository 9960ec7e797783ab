// Calls of which nobody knows whether they happened: `verify` is asked once the attempt is dead, and what comes of it recorded.
import { CancellationScope, sleep } from '@temporalio/workflow'
import type { VerifyToolResult } from '../activities/contract.ts'
import { MAX_DEATHS } from '../session/attempts.ts'
import { type Lost, verifications, whyLost } from './activities.ts'
import { type Call, inputOf, recorded, type Turn, whereOf } from './call.ts'
import type { Journal } from './journal.ts'

/** Between a tool's timeout and the moment its body can no longer be alive, where no supervisor can confirm the death. */
const DEATH_GRACE_MS = 5_000

/** What a person is told of a call whose outcome is unknown. */
const UNKNOWN = 'The outcome of this call is unknown: it may or may not have taken effect. The session waits for somebody to say.'

/** What the model is told of a call whose outcome is unknown. */
export const UNKNOWN_TO_MODEL =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not and will not be repeated by itself. ' +
  'Do not ask for it again; tell the user, or check with a read.'

/** Nobody knows whether the call happened: asks `verify` once the attempt is dead, and records what comes of it. */
export async function settleUnknown(
  turn: Turn,
  call: Call,
  attempt: number,
  death?: { lost: Lost; startedAt: number; timeoutMs: number },
): Promise<'settled' | 'did_not_happen'> {
  const { journal } = turn
  const where = whereOf(call)
  // Also an interrupted run records what became of what it had begun.
  return CancellationScope.nonCancellable(async () => {
    if (death && !(death.lost.how === 'died' && death.lost.confirmed)) {
      const dead = death.startedAt + death.timeoutMs + DEATH_GRACE_MS
      await sleepUntil(dead, journal)
    }
    const verdict = await verify(turn, call, attempt)
    if (verdict.kind === 'not_happened') {
      journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: false })
      return 'did_not_happen'
    }
    if (verdict.kind === 'happened') {
      journal.append({ type: 'tool_resolved', ...where, by: 'verify', happened: true })
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
  const { journal } = turn
  const earlier = journal.state.unknown[callId]
  if (!earlier) return 'did_not_happen'
  const where = { run: earlier.run, turn: earlier.turn, callId, tool: earlier.resolution.tool }
  const verdict = await CancellationScope.nonCancellable(async () => {
    if (earlier.aliveUntil !== undefined) await sleepUntil(earlier.aliveUntil, journal)
    if (earlier.input === undefined) return CANNOT_ASK
    return verify(turn, { ...where, ...earlier, input: earlier.input }, earlier.attempt)
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

/** Also one that is over already is slept until: whether it is must not be asked of the clock, which a replay may read otherwise. */
async function sleepUntil(moment: number, { coreVersion }: Journal): Promise<void> {
  const leftMs = moment - Date.now()
  if (leftMs > 0 || coreVersion > 1) await sleep(Math.max(1, leftMs))
}

async function verify(turn: Turn, call: Call, attempt: number): Promise<VerifyToolResult> {
  if (!call.resolution.verify) return { kind: 'cannot_tell', message: 'The tool has no verify.' }
  let deaths = 0
  let how: 'first' | 'again' = 'first'
  for (;;) {
    try {
      const { verifyTool } = verifications(call.resolution, how)
      const verdict = await turn.pacing.schedule({ ...inputOf(turn, call), attempt }, verifyTool)
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
