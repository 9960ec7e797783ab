// The attempt that an activity makes at a call: its number and the data of earlier attempts, from heartbeat details and the input.
import { type AttemptReport, fateOf, lostAttempt, MAX_DEATHS, readReport } from '../session/attempts.ts'
import type { Json } from '../session/json.ts'
import type { AttemptSoFar } from '../calls/jobs.ts'
import type { Prior } from '../calls/activities.ts'
import { defined } from '../session/defined.ts'

/** The workflow's data on earlier activities of the call. */
export interface Earlier {
  prior?: Prior | undefined
  /** The last progress that an earlier activity of the call reported. */
  progress?: Json | undefined
  /** Temporal's earlier attempts were not attempts of the call, because no worker served it. */
  uncounted?: true
}

/** An attempt, counted. */
export interface CountedAttempt {
  attempt: AttemptSoFar
  /** Whether too many attempts died with their worker. */
  isGivenUp: boolean
}

const NONE: Prior = { attempts: 0, failures: 0, deaths: 0 }

/** Counts the attempt of the activity `info`. */
export function countAttempt(
  info: { attempt: number; heartbeatDetails: unknown },
  { prior, progress, uncounted }: Earlier,
): CountedAttempt {
  const { attempts: before, failures: failedBefore, deaths: deathsBefore, fallback, unexpected: earlier } = prior ?? NONE
  const { report: last } = readReport(info.heartbeatDetails)
  const failed = [...(last?.failed ?? [])]
  if (!uncounted) {
    // One attempt of the activity may contain several of the call: a model's answer outlives the executors that died while handling it.
    const made = Math.max(info.attempt - 1, (last?.attempt ?? before) - before)
    for (let lost = failed.length + 1; lost <= made; lost++) failed.push(lostAttempt(before + lost, last))
  } else if (last?.reserved && last.attempt > before + failed.length) {
    // A worker served the call after all, and reserved part of the budget for it.
    failed.push(lostAttempt(last.attempt, last))
  }
  const fates = failed.map(fateOf)
  const lastProgress = last?.progress ?? progress
  const unexpected = failed.length > 0 ? failed.at(-1)?.unexpected : earlier
  return {
    attempt: {
      number: before + failed.length + 1,
      failed,
      failures: failedBefore + fates.filter((fate) => fate === 'failure').length,
      ...defined({ lastProgress, fallback, unexpected }),
    },
    isGivenUp: deathsBefore + fates.filter((fate) => fate === 'death').length >= MAX_DEATHS,
  }
}

/** The heartbeat details before the body is entered. */
export function reportOf({ number, failed, lastProgress }: AttemptSoFar, worker: string): AttemptReport {
  return { attempt: number, begun: false, failed, worker, ...defined({ progress: lastProgress }) }
}
