// Results of `external` calls that arrive after their attempts were abandoned. If the body returned its result after a server outage,
// neither `verify` nor a person has to determine the outcome.
import { condition, patched } from '@temporalio/workflow'
import { areCustomEvents } from '../../session/hooks/custom-events.ts'
import { isTooDeep } from '../../session/json.ts'
import type { LateResultSignal } from '../../session/protocol/protocol.ts'
import { areSpendNotes } from '../../session/spending/spend-notes.ts'
import type { Inheritance } from '../inherited.ts'
import { whereIn, recorded, recordReports } from './call.ts'
import type { Journal } from '../journal.ts'
import { hasEnded } from '../../session/past/call-status.ts'
import type { CallState } from '../../session/state.ts'

export interface LateResults {
  /** Accepts a signal's argument; drops a result that no call waits for. */
  receive(raw: unknown, journal: Journal): void
  /** Waits for a result of the call, for at most the given time; undefined if none has come. */
  of(callId: string, waitMs: number): Promise<LateResultSignal | undefined>
}

/**
 * `hasCaughtUp`: whether the session knows all calls that an earlier execution had made. `inherited`: the answers to them. A call that is lost
 * there gets its result there: what is inherited outlives a pause, an interrupt and the execution.
 */
export function startLateResults(hasCaughtUp: () => boolean, inherited: Pick<Inheritance, 'isLost' | 'complete'>): LateResults {
  const arrived = new Map<string, LateResultSignal>()
  const isExpected = (call: CallState): boolean => {
    if (call.resolution.effect !== 'external') return false
    return call.status === 'issued' || (!hasEnded(call) && !hasCaughtUp())
  }

  return {
    receive(raw, journal) {
      if (!isLateResult(raw)) return
      const { callId } = raw
      const { current, unknown } = journal.state
      const call = current?.calls.find((one) => one.callId === callId)
      if (unknown[callId]) resolveLate(raw, journal)
      else if (call && isExpected(call) && inherited.isLost(callId) && patched('late-result-inherited')) inherited.complete(raw)
      else if (call ? isExpected(call) : !hasCaughtUp()) arrived.set(callId, raw)
    },
    async of(callId, waitMs) {
      if (!arrived.has(callId) && waitMs > 0) await condition(() => arrived.has(callId), waitMs)
      const late = arrived.get(callId)
      arrived.delete(callId)
      return late
    },
  }
}

/** Records the outcome of a call that was reported to the model or a person as unknown. */
function resolveLate(late: LateResultSignal, journal: Journal): void {
  const { callId } = late
  const { unknown, current } = journal.state
  const known = unknown[callId]
  if (!known) return
  const where = whereIn(known, { ...known, callId })
  const waits = current?.calls.some((call) => call.callId === callId && call.status === 'awaiting_resolution') ?? false
  const result = recorded(late)
  recordReports(journal, where, late)
  // The result is recorded once: in the call's own end event if the call has not ended yet.
  journal.append({ type: 'tool_resolved', ...where, by: 'worker', happened: true, ...(!waits && result) })
  if (waits) journal.append({ type: 'tool_completed', ...where, attempt: known.attempt, ...result })
}

function isLateResult(raw: unknown): raw is LateResultSignal {
  const { callId, attempt, startedAt, worker, effectId, emitted, spent } = (raw ?? {}) as Partial<LateResultSignal>
  return (
    typeof callId === 'string' &&
    Number.isSafeInteger(attempt) &&
    Number.isSafeInteger(startedAt) &&
    typeof worker === 'string' &&
    worker.length <= MAX_NAME &&
    (effectId === undefined || (typeof effectId === 'string' && effectId.length <= MAX_NAME)) &&
    !isTooDeep(raw) &&
    (emitted === undefined || areCustomEvents(emitted)) &&
    (spent === undefined || areSpendNotes(spent))
  )
}

const MAX_NAME = 1_000
