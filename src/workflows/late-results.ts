// Results of `external` calls that came after their attempts had been given up: a server that was away for a while must not turn what
// a body has done, and knows, into a question for `verify` or a person.
import { condition } from '@temporalio/workflow'
import { isTooDeep } from '../session/json.ts'
import type { LateResultSignal } from '../session/protocol.ts'
import { recorded } from './recorded.ts'
import type { Journal } from './journal.ts'

/** Late results of the calls of one execution. */
export interface LateResults {
  /** Takes a signal's argument: a result that no call waits for is dropped. */
  receive(raw: unknown, journal: Journal): void
  /** Waits for a result of the call, at most so long; undefined if none has come. */
  of(callId: string, waitMs: number): Promise<LateResultSignal | undefined>
}

/** Late results, none yet. */
export function startLateResults(): LateResults {
  const arrived = new Map<string, LateResultSignal>()

  return {
    receive(raw, journal) {
      if (!isLateResult(raw)) return
      const { callId } = raw
      const { current, unknown } = journal.state
      const call = current?.calls.find((one) => one.callId === callId)
      if (unknown[callId]) resolveLate(raw, journal)
      else if (call?.status === 'issued' && call.resolution.effect === 'external') arrived.set(callId, raw)
    },
    async of(callId, waitMs) {
      if (!arrived.has(callId) && waitMs > 0) await condition(() => arrived.has(callId), waitMs)
      const late = arrived.get(callId)
      arrived.delete(callId)
      return late
    },
  }
}

/** The model, or a person, was told that the outcome is unknown; now it is known. */
function resolveLate(late: LateResultSignal, journal: Journal): void {
  const { callId } = late
  const { unknown, current } = journal.state
  const known = unknown[callId]
  if (!known) return
  const where = { run: known.run, turn: known.turn, callId, tool: known.resolution.tool }
  const waits = current?.calls.some((call) => call.callId === callId && call.status === 'awaiting_resolution') ?? false
  const result = recorded(late)
  // The result stands once: in the call's own end if it has none yet.
  journal.append({ type: 'tool_resolved', ...where, by: 'worker', happened: true, ...(!waits && result) })
  if (waits) journal.append({ type: 'tool_completed', ...where, attempt: known.attempt, ...result })
}

function isLateResult(raw: unknown): raw is LateResultSignal {
  const { callId, attempt, startedAt, worker, effectId } = (raw ?? {}) as Partial<LateResultSignal>
  return (
    typeof callId === 'string' &&
    Number.isSafeInteger(attempt) &&
    Number.isSafeInteger(startedAt) &&
    typeof worker === 'string' &&
    worker.length <= MAX_NAME &&
    (effectId === undefined || (typeof effectId === 'string' && effectId.length <= MAX_NAME)) &&
    !isTooDeep(raw)
  )
}

const MAX_NAME = 1_000
