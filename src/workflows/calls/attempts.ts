// Counts and records the attempts of one call, over all its activities.
import { patched } from '@temporalio/workflow'
import {
  addAttempt,
  type AttemptTally,
  countFate,
  type Fallback,
  fateOf,
  hasDiedTooOften,
  lostAttempt,
  lostCost,
  MAX_UNREPORTED,
  noAttempts,
} from '../../session/attempts.ts'
import type { FailedAttempt } from '../../session/call-facts.ts'
import type { LostActivity } from '../lost-activity.ts'

export interface Attempts {
  readonly used: AttemptTally
  /** The reason for giving up the call, if too many attempts were lost. */
  givenUp(): string | undefined
  /** Adds failed attempts that an activity reported. */
  failed(attempts: readonly FailedAttempt[] | undefined): void
  /** Switches to another model, which has its own retries. */
  fallBack(to: Fallback): void
  /** Adds a lost attempt; returns its number. Its record says whether another attempt follows, judging by `rule` and the tally. */
  lost(lost: LostActivity & { how: 'died' | 'failed' }, rule: RetryRule): number
}

/** Decides whether a lost attempt is the last one. */
export interface RetryRule {
  /** The call ends when it has failed more often than this. */
  maxFailures: number
  /** The attempt may have had an effect that must not be repeated: `verify` or a person decides. */
  isOnce?: boolean
}

/** Replayed histories without this patch recorded every lost attempt as retryable. */
const isPatched = (): boolean => patched('lost-for-good')

/**
 * Counts on from `used`. If an automatic recovery repeats the call, `used` has the digest of its failure, provided that was unexpected.
 * Calls `record` once for each failed attempt. `saysLast`: whether to record that a lost attempt is the last one.
 */
export function countAttempts(record: (attempt: FailedAttempt) => void, used = noAttempts(), saysLast = isPatched): Attempts {
  function add(attempt: FailedAttempt): void {
    if (addAttempt(used, attempt)) record(attempt)
  }

  function givenUp(): string | undefined {
    const { unreported = 0 } = used
    if (hasDiedTooOften(used)) return `caused ${used.deaths} worker processes to die`
    return unreported >= MAX_UNREPORTED ? `was assigned ${unreported} times to workers that never reported in` : undefined
  }

  /** Call this after counting the attempt. */
  const isRetryable = ({ maxFailures, isOnce }: RetryRule): boolean =>
    !(isOnce || givenUp() !== undefined || used.failures > maxFailures) || !saysLast()

  return {
    used,
    givenUp,
    failed: (attempts) => {
      for (const attempt of attempts ?? []) add(attempt)
    },
    fallBack(to) {
      used.fallback = to
      used.failures = 0
      delete used.unexpected
    },
    lost(lost, rule) {
      const report = lost.how === 'died' ? lost.report : undefined
      for (const attempt of report?.failed ?? []) add(attempt)
      const attempt = Math.max(used.attempts + 1, report?.attempt ?? 0)
      used.attempts = attempt
      if (lost.how === 'died' && !report && !lost.begun && lost.failureClass === 'HeartbeatTimeout') {
        const error = lostAttempt(attempt, undefined)
        countFate(used, fateOf(error))
        record({ ...error, retryable: isRetryable(rule) })
        return attempt
      }
      countFate(used, lost.how === 'failed' ? 'failure' : report?.cause === 'neighbour' ? 'neighbour' : 'death')
      record({
        attempt,
        class: lost.failureClass,
        message: lost.message,
        retryable: isRetryable(rule),
        ...(report && { worker: report.worker }),
        ...(report && report.cause !== 'crash' && { code: report.cause }),
        ...(report && lostCost(report)),
      })
      return attempt
    },
  }
}
