// Decides what follows the failure of a model call: another attempt, the next model, or the end of the run.
import type { Agent } from '../../agent/agent.ts'
import { isModelError } from '../../agent/errors.ts'
import { nextDelayMs } from '../../agent/retry.ts'
import type { NoAnswer } from '../../calls/activities.ts'
import type { AttemptSoFar, Fallback } from '../../session/attempts.ts'
import type { FailedAttempt } from '../../session/call-facts.ts'
import { defined } from '../../session/defined.ts'
import { PawlError } from '../../session/errors.ts'
import { cutText } from '../../session/protocol/texts.ts'
import type { Cost } from '../../session/spending/spend.ts'
import { failedAttempt } from '../attempt.ts'
import { GateDelay, ModelFailure } from './ask-model.ts'
import { NotAfforded, SharedBudgetRefusal } from './call-budget.ts'
import { shortHash } from '../../session/digest.ts'
import { thrownAt } from '../stack.ts'

/** What `afterFailure` needs to know besides the error. */
export interface FailureContext {
  agent: Pick<Agent, 'retry' | 'fallback'>
  /** The cost of the attempt, under a budget. */
  spent: Cost | undefined
  worker: string
  /** The attempt; its failure is added to `failed`. */
  attempt: AttemptSoFar
  timeLeft(): number
}

/** Decides what follows the failure of an attempt. */
export function afterFailure({ agent, worker, attempt, timeLeft, spent }: FailureContext, thrown: unknown): NoAnswer {
  // If the deadline comes first, the run ends then.
  if (thrown instanceof GateDelay) {
    const { account, slot } = thrown
    return { kind: 'gated', afterMs: Math.max(0, Math.min(slot.afterMs, timeLeft())), account, slotMs: slot.slotMs }
  }
  if (thrown instanceof NotAfforded)
    return {
      kind: 'failed',
      code: thrown.code,
      reason: thrown.message,
      ...(thrown.isAssumed && { assumed: true }),
      ...defined({ raise: thrown.raise }),
    }
  if (thrown instanceof SharedBudgetRefusal) return { kind: thrown.kind, reason: thrown.message }
  const { cause: error, call = {} } = thrown instanceof ModelFailure ? thrown : { cause: thrown }
  const told = isModelError(error) ? error : undefined
  // If an answer lacks the calls that it announces, a second request may return them. pawl asks once more.
  const isTold = (told !== undefined || error instanceof PawlError) && told?.code !== 'calls_missing'
  const unexpected = isTold || isOutage(error) ? undefined : unexpectedDigest(error)
  const failed = failedAttempt(attempt.number, error, { retryable: false, worker, ...call, ...defined({ spent, unexpected }) })
  // The same unexpected error twice in a row is a fault in the code, which no outside event will fix.
  const isFault = unexpected !== undefined && unexpected === attempt.unexpected
  const retryable = told?.retryable !== false && !isFault
  const record = (followedBy?: { afterMs: number }): void => {
    attempt.failed.push(followedBy ? { ...failed, retryable: true, nextDelayMs: followedBy.afterMs } : failed)
  }
  const failure = reported(failed, told !== undefined)
  const retry = attempt.failures + 1
  if (retryable && retry <= agent.retry.maxRetries) {
    const afterMs = nextDelayMs(agent.retry, retry, told?.retryAfterMs)
    record({ afterMs })
    // If the deadline comes first, the run ends then.
    return { kind: 'again', afterMs: Math.max(0, Math.min(afterMs, timeLeft())) }
  }
  const mayFallBack = thrown instanceof ModelFailure && (told?.fallback ?? (retryable || isFault))
  if (mayFallBack && (attempt.fallback?.at ?? 0) < agent.fallback.length) {
    record({ afterMs: 0 })
    return { kind: 'again', afterMs: 0, fallback: nextModel(attempt.fallback, retryable ? failure : undefined) }
  }
  record()
  if (isFault) failure.reason = `The same unexpected error twice in a row: ${failure.reason}`
  const earlier = retryable ? undefined : attempt.fallback?.transient
  if (earlier)
    return { kind: 'failed', ...earlier, reason: `${earlier.reason} The fallback failed, too: ${failure.reason}`, transient: true }
  return { kind: 'failed', ...failure, ...(retryable && { transient: true }), ...defined({ unexpected }) }
}

type ReportedFailure = { code: string; reason: string }
/** The reason for the earlier failure is part of every later attempt's input. */
const MAX_EARLIER_BYTES = 1_000

/** The code of an error counts only if the model's adapter reported it as a model error. */
function reported({ code, message }: FailedAttempt, isFromModel: boolean): ReportedFailure {
  return { code: (isFromModel ? code : undefined) ?? 'model_call_failed', reason: message }
}

/** If several models fail for transient reasons, the run reports the first failure. */
function nextModel(from: Fallback | undefined, transient: ReportedFailure | undefined): Fallback {
  const first = transient && { ...transient, reason: cutText(transient.reason, MAX_EARLIER_BYTES) }
  return { at: (from?.at ?? 0) + 1, ...defined({ transient: from?.transient ?? first }) }
}

const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENETDOWN',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])
const STATUSES = new Set([408, 409, 425, 429])
/** How deep a chain of causes is followed. */
const MAX_CAUSES = 5

/** Whether the error, or one that caused it, is a lost connection, a timeout, or an HTTP status that suggests another attempt. */
function isOutage(error: unknown): boolean {
  let one = error
  for (let depth = 0; depth < MAX_CAUSES && typeof one === 'object' && one !== null; depth++) {
    const { name, code, status, statusCode, cause, errors } = membersOf(one)
    if (name === 'TimeoutError') return true
    if (typeof code === 'string' && (NETWORK.has(code) || code.startsWith('UND_ERR_'))) return true
    if ([status, statusCode].some((number) => typeof number === 'number' && (STATUSES.has(number) || number >= 500))) return true
    // Node reports a host with several addresses as an AggregateError.
    one = cause ?? (Array.isArray(errors) ? errors[0] : undefined)
  }
  return false
}

/** An error may throw when it is read. */
function membersOf(error: object): Record<string, unknown> {
  try {
    const { name, code, status, statusCode, cause, errors } = error as Record<string, unknown>
    return { name, code, status, statusCode, cause, errors }
  } catch {
    return {}
  }
}

/** The part of a path that depends on where the project or a package is installed: all folders but the last. */
const INSTALLED_AT = /^.*?(?=[^\\/]+[\\/][^\\/]+$)/

/**
 * Digest of an unexpected error. Errors of one class thrown by the same line of the user's code or a library have the same digest. Values
 * without a stack are identified by their text, without numbers and ids that contain digits.
 */
export function unexpectedDigest(error: unknown): string {
  const { name, code, message } = partsOf(error)
  const where = thrownAt(error)?.replace(INSTALLED_AT, '') ?? message.replace(/[0-9a-f]*\d[0-9a-f]*/gi, '#')
  return shortHash(`${name}\n${code}\n${where}`)
}

/** Any value may be thrown, even one that throws when it is read. */
function partsOf(error: unknown): Record<'name' | 'code' | 'message', string> {
  try {
    if (!(error instanceof Error)) return { name: typeof error, code: '', message: String(error) }
    const { name, message } = error
    return { name: String(name), code: String((error as { code?: unknown }).code), message: String(message) }
  } catch {
    return { name: 'unreadable', code: '', message: '' }
  }
}
