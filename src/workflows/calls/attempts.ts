// The budget that the attempts of one call have used, over all its activities.
import type { Fallback, Prior } from '../../calls/activities.ts'
import { fateOf, lostAttempt, lostCost, MAX_DEATHS, MAX_UNREPORTED } from '../../session/attempts.ts'
import { defined } from '../../session/defined.ts'
import type { FailedAttempt } from '../../session/events.ts'
import type { Lost } from '../activities.ts'

/** Attempts of one model call or tool call. */
export interface Attempts {
  readonly used: Prior
  /** The reason for giving up the call, if too many attempts were lost. */
  givenUp(): string | undefined
  /** Adds failed attempts that an activity reported. */
  failed(attempts: readonly FailedAttempt[] | undefined): void
  /** The next attempt asks another model, with its own retries. */
  fallBack(to: Fallback): void
  /** Adds a lost attempt; returns its number. */
  lost(lost: Lost & { how: 'died' | 'failed' }): number
}

/** What is known of a call before its first activity. */
export interface Before {
  /** Attempts made. Default 0. */
  attempts?: number | undefined
  /** Digest of the failure after which an automatic recovery makes the call again, if that was unexpected. */
  unexpected?: string | undefined
}

/** Starts counting; `record` is called once for each failed attempt. */
export function countAttempts(record: (attempt: FailedAttempt) => void, { attempts = 0, unexpected }: Before = {}): Attempts {
  const used: Prior = { attempts, failures: 0, deaths: 0, ...defined({ unexpected }) }
  let unreported = 0

  function add(attempt: FailedAttempt): void {
    if (attempt.attempt <= used.attempts) return
    used.attempts = attempt.attempt
    count(fateOf(attempt))
    if (attempt.unexpected === undefined) delete used.unexpected
    else used.unexpected = attempt.unexpected
    record(attempt)
  }

  function count(fate: ReturnType<typeof fateOf>): void {
    if (fate === 'death') used.deaths += 1
    else if (fate === 'failure') used.failures += 1
    else if (fate === 'unreported') unreported += 1
  }

  return {
    used,
    givenUp() {
      if (used.deaths >= MAX_DEATHS) return `caused ${used.deaths} worker processes to die`
      return unreported >= MAX_UNREPORTED ? `was assigned ${unreported} times to workers that never reported in` : undefined
    },
    failed: (attempts) => {
      for (const attempt of attempts ?? []) add(attempt)
    },
    fallBack(to) {
      used.fallback = to
      used.failures = 0
      delete used.unexpected
    },
    lost(lost) {
      const report = lost.how === 'died' ? lost.report : undefined
      for (const attempt of report?.failed ?? []) add(attempt)
      const attempt = Math.max(used.attempts + 1, report?.attempt ?? 0)
      used.attempts = attempt
      if (lost.how === 'died' && !report && !lost.begun && lost.failureClass === 'HeartbeatTimeout') {
        const error = lostAttempt(attempt, undefined)
        count(fateOf(error))
        record(error)
        return attempt
      }
      if (lost.how === 'failed') used.failures += 1
      // A process that was killed because of another call does not count against this one.
      else if (report?.cause !== 'neighbour') used.deaths += 1
      record({
        attempt,
        class: lost.failureClass,
        message: lost.message,
        retryable: true,
        ...(report && { worker: report.worker }),
        ...(report && report.cause !== 'crash' && { code: report.cause }),
        ...(report && lostCost(report)),
      })
      return attempt
    },
  }
}
