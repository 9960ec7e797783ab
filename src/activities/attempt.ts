// Counts the attempt that an activity makes, and collects the data of earlier attempts, from heartbeat details and the input.
import {
  type AttemptReport,
  type AttemptTally,
  hasDiedTooOften,
  lostAttempt,
  noAttempts,
  readReport,
  tallied,
} from '../session/attempts.ts'
import type { Json } from '../session/json.ts'
import type { AttemptSoFar } from '../calls/jobs.ts'
import { defined } from '../session/defined.ts'

/** The workflow's data on earlier activities of the call. */
export interface Earlier {
  prior?: AttemptTally | undefined
  /** The last progress that an earlier activity of the call reported. */
  progress?: Json | undefined
  /** Temporal's earlier attempts were not attempts of the call, because no worker served it. */
  uncounted?: true
}

/** Counts the attempt of the activity `info`. `isGivenUp`: whether too many attempts died with their worker. */
export function countAttempt(
  info: { attempt: number; heartbeatDetails: unknown },
  { prior = noAttempts(), progress, uncounted }: Earlier,
): { attempt: AttemptSoFar; isGivenUp: boolean } {
  const before = prior.attempts
  const { report: last } = readReport(info.heartbeatDetails)
  const failed = [...(last?.failed ?? [])]
  if (!uncounted) {
    // One attempt of the activity may comprise several attempts of the call, because a model's answer outlives executors that die while
    // handling it.
    const made = Math.max(info.attempt - 1, (last?.attempt ?? before) - before)
    for (let lost = failed.length + 1; lost <= made; lost++) failed.push(lostAttempt(before + lost, last))
  } else if ((last?.reserved || last?.begun) && last.attempt > before + failed.length) {
    // A worker served the call after all, and has asked the model, or reserved part of the budget for it.
    failed.push(lostAttempt(last.attempt, last))
  }
  const tally = tallied(prior, failed)
  const isGivenUp = hasDiedTooOften(tally)
  // No attempt follows the last one.
  if (isGivenUp) failed.push(...failed.splice(-1).map((attempt) => ({ ...attempt, retryable: false })))
  const { failures, fallback, unexpected } = tally
  const lastProgress = last?.progress ?? progress
  return {
    attempt: { number: before + failed.length + 1, failed, failures, ...defined({ lastProgress, fallback, unexpected }) },
    isGivenUp,
  }
}

/** The heartbeat details before the body is entered. `assignment`: the number of the server's attempt. */
export function reportOf({ number, failed, lastProgress }: AttemptSoFar, worker: string, assignment: number): AttemptReport {
  return { attempt: number, assignment, begun: false, failed, worker, ...defined({ progress: lastProgress }) }
}
