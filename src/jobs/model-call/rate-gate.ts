// The rate gate of a provider, as a model call sees it: after a refusal with `retry-after`, all calls to that account wait in a queue.
import { setTimeout as sleep } from 'node:timers/promises'
import { isFromHeader, isModelError } from '../../agent/errors.ts'
import type { Model } from '../../agent/model.ts'
import type { RetryPolicy } from '../../agent/retry.ts'
import type { GateSlot } from '../../calls/reads.ts'
import { askedWaitMs } from '../../session/backoff.ts'
import { modelName } from './check-response.ts'

export interface RateGate {
  /** Whether calls to this account must ask for a slot. */
  isShut(key: string): boolean
  /** When the call may be made. A call that asks again keeps its slot. */
  slotFor(key: string, call: string): Promise<GateSlot>
  /**
   * Reports that the provider has refused a call and accepts none for `forMs` milliseconds. `isHeader`: the provider's own header says so.
   */
  refused(key: string, forMs: number, isHeader: boolean): void
  /** Reports that the provider has accepted a call that asked for a slot. */
  accepted(key: string): void
}

/** For a longer wait, a workflow timer replaces the wait here and frees the executor. */
const WAITS_HERE_MS = 1_000
/** Statuses and codes with which a provider requests fewer calls. */
const TOO_MANY = new Set<unknown>([429, 529, 'rate_limit_error', 'overloaded_error'])

/** The account that a call of the model counts against. */
export function gateOf(model: Model): string {
  const provider = modelName(model.provider) ?? modelName(model.name) ?? 'unknown'
  const account = modelName(model.account)
  return account === undefined ? provider : `${provider} ${account}`
}

/** Waits for the call's turn. Returns when to ask again if the wait is long, and whether the gate was shut. @throws the signal's reason. */
export async function waitAtGate(
  gates: RateGate,
  key: string,
  call: string,
  signal: AbortSignal,
): Promise<GateSlot & { wasShut: boolean }> {
  let wasShut = false
  while (gates.isShut(key)) {
    wasShut = true
    const { afterMs, slotMs } = await gates.slotFor(key, call)
    if (afterMs <= 0) break
    if (afterMs > WAITS_HERE_MS) return { afterMs, slotMs, wasShut }
    await sleep(afterMs, undefined, { signal })
  }
  return { afterMs: 0, slotMs: 0, wasShut }
}

/** Shuts the gate if the provider has asked for fewer calls. */
export function noteRefusal(gates: RateGate, key: string, { maxRetryAfterMs }: RetryPolicy, error: unknown): void {
  if (!isModelError(error) || (!TOO_MANY.has(error.status) && !TOO_MANY.has(error.code))) return
  const forMs = askedWaitMs(error.retryAfterMs)
  if (forMs !== undefined && forMs > 0) gates.refused(key, Math.min(forMs, maxRetryAfterMs), isFromHeader(error))
}
