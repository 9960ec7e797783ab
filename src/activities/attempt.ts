// Which attempt of a call an activity is: its number and what earlier attempts left, from heartbeat details and the workflow's input.
import { type AttemptReport, fateOf, lostAttempt, MAX_DEATHS, readReport } from '../session/attempts.ts'
import type { Json } from '../session/json.ts'
import type { AttemptSoFar } from '../jobs/contract.ts'
import type { Prior } from './contract.ts'
import { defined } from '../session/defined.ts'

/** What the workflow says of earlier activities of the call. */
export interface Earlier {
  prior?: Prior | undefined
  /** The last progress that an earlier activity of the call reported. */
  progress?: Json | undefined
  /** Attempts that Temporal made before this one were not attempts of the call: no worker served it. */
  uncounted?: true
}

/** An attempt, counted. */
export interface Counted {
  attempt: AttemptSoFar
  /** Whether too many attempts died with their worker. */
  isGivenUp: boolean
}

/** Counts the attempt that the activity `info` is. */
export function countAttempt(info: { attempt: number; heartbeatDetails: unknown }, { prior, progress, uncounted }: Earlier): Counted {
  const { attempts: before, failures: failedBefore, deaths: deathsBefore } = prior ?? { attempts: 0, failures: 0, deaths: 0 }
  const { report: last } = readReport(info.heartbeatDetails)
  const failed = [...(last?.failed ?? [])]
  if (!uncounted) {
    for (let lost = failed.length + 1; lost < info.attempt; lost++) failed.push(lostAttempt(before + lost, last))
  }
  const fates = failed.map(fateOf)
  const lastProgress = last?.progress ?? progress
  return {
    attempt: {
      number: before + failed.length + 1,
      failed,
      failures: failedBefore + fates.filter((fate) => fate === 'failure').length,
      ...defined({ lastProgress }),
    },
    isGivenUp: deathsBefore + fates.filter((fate) => fate === 'death').length >= MAX_DEATHS,
  }
}

/** What heartbeats say of the attempt before its body is entered. */
export function reportOf({ number, failed, lastProgress }: AttemptSoFar, worker: string): AttemptReport {
  return { attempt: number, begun: false, failed, worker, ...defined({ progress: lastProgress }) }
}
