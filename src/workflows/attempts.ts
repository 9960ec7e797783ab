// What the attempts of one call have used up, over all its activities.
import type { Prior } from '../activities/contract.ts'
import type { FailedAttempt } from '../session/events.ts'
import type { Lost } from './activities.ts'

/** Attempts of one model call or tool call. */
export interface Attempts {
  readonly used: Prior
  /** Adds failed attempts that an activity told of. */
  failed(attempts: readonly FailedAttempt[] | undefined): void
  /** Adds the attempt that was lost; gives its number. */
  lost(lost: Lost & { how: 'died' | 'failed' }): number
}

/** Starts counting, after so many attempts; `record` is told of each failed attempt, once. */
export function countAttempts(record: (attempt: FailedAttempt) => void, before = 0): Attempts {
  const used: Prior = { attempts: before, failures: 0, deaths: 0 }

  function add(attempt: FailedAttempt): void {
    if (attempt.attempt <= used.attempts) return
    used.attempts = attempt.attempt
    if (attempt.class === 'WorkerDied' || attempt.class === 'HeartbeatTimeout') used.deaths += 1
    else used.failures += 1
    record(attempt)
  }

  return {
    used,
    failed: (attempts) => {
      for (const attempt of attempts ?? []) add(attempt)
    },
    lost(lost) {
      const report = lost.how === 'died' ? lost.report : undefined
      for (const attempt of report?.failed ?? []) add(attempt)
      const attempt = Math.max(used.attempts + 1, report?.attempt ?? 0)
      // A process that was killed for another call's sake says nothing against this one.
      const innocent = report?.cause === 'neighbour'
      used.attempts = attempt
      if (lost.how === 'failed') used.failures += 1
      else if (!innocent) used.deaths += 1
      record({
        attempt,
        class: lost.failureClass,
        message: lost.message,
        retryable: true,
        ...(report && { worker: report.worker }),
        ...(report && report.cause !== 'crash' && { code: report.cause }),
      })
      return attempt
    },
  }
}
