// Lost attempts of a call: how they are recorded, and how many may be lost before the call is given up.
import type { Cost } from './spending/spend.ts'
import type { FailedAttempt } from './events.ts'
import type { Json } from './json.ts'
import { assumedCost, type Reservation } from './spending/reservation.ts'

/** A call is given up after this many attempts died with their worker. */
export const MAX_DEATHS = 5

/**
 * A call is given up after the server assigned this many of its attempts to processes that never reported. Ten polls of a frozen or dead
 * process stay in the server's queue for about a minute, and the server may assign an attempt to each.
 */
export const MAX_UNREPORTED = 50

/** The code of an attempt that never sent a heartbeat. From a call's second attempt on, such an attempt has not begun. */
const UNREPORTED = 'not_begun'

/** The lost attempt as a row of `errors`. `report`: the last one of the activity, if there was one. */
export function lostAttempt(
  attempt: number,
  report: Pick<AttemptReport, 'attempt' | 'worker' | 'reserved' | 'spent'> | undefined,
): FailedAttempt {
  const said = { attempt, class: 'HeartbeatTimeout', retryable: true } as const
  const hasReported = report?.attempt === attempt
  if (!hasReported && attempt > 1) {
    return { ...said, code: UNREPORTED, message: 'No worker reported in: it was frozen or had exited before the attempt began.' }
  }
  return { ...said, message: 'The worker stopped sending heartbeats.', ...(hasReported && { worker: report.worker, ...lostCost(report) }) }
}

/** The cost of an attempt that did not report back: what was seen of it, or else everything that was set aside for it. */
export function lostCost({ reserved, spent = reserved && assumedCost(reserved) }: Pick<AttemptReport, 'reserved' | 'spent'>): {
  spent?: Cost
} {
  return spent ? { spent } : {}
}

/** Whether the attempt died with its worker, threw, never began, or was the `neighbour` of a call for which its worker was killed. */
export function fateOf(attempt: FailedAttempt): 'death' | 'failure' | 'unreported' | 'neighbour' {
  if (attempt.class !== 'WorkerDied' && attempt.class !== 'HeartbeatTimeout') return 'failure'
  if (attempt.code === UNREPORTED) return 'unreported'
  return attempt.code === 'neighbour' ? 'neighbour' : 'death'
}

/** What is known about an attempt that did not report back: heartbeat details, and the details of `WorkerDied`. */
export interface AttemptReport {
  attempt: number
  /** Whether the body may have been entered. */
  begun: boolean
  /** Failed attempts of this activity so far. */
  failed: FailedAttempt[]
  worker: string
  /** The executor that received the attempt, in the form that people see; absent until there is one. */
  executor?: string
  /** The last progress that the body reported. */
  progress?: Json
  /** For a model call under a budget: what was set aside before its request was sent. */
  reserved?: Reservation | undefined
  /** What the call cost, if that was seen before its executor died. */
  spent?: Cost
}

/** Details of the failure `WorkerDied`. */
export interface DeathReport extends AttemptReport {
  /** `neighbour`: the process was killed because of another call. */
  cause: 'crash' | 'stuck_loop' | 'overdue' | 'neighbour'
}

/** Details of the failure of an attempt that threw. */
export interface Thrown {
  /** The error's class: user code names its own. Absent: the failure's type. */
  class?: string
  message: string
  stack?: string
}

/**
 * Reads the report from the details of a heartbeat or of `WorkerDied`. `begun` is false if a readable report says so, or if there is none;
 * an unreadable report counts as begun.
 */
export function readReport(details: unknown): { report: AttemptReport | DeathReport | undefined; begun: boolean } {
  if (details === undefined || details === null) return { report: undefined, begun: false }
  const { attempt, begun } = details as Partial<AttemptReport>
  if (typeof attempt !== 'number' || typeof begun !== 'boolean') return { report: undefined, begun: true }
  return { report: details as AttemptReport, begun }
}
