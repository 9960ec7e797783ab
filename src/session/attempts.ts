// Attempts of a call: how they are numbered and counted, how lost ones are recorded, and how many may be lost before pawl gives up on the
// call.
import { defined } from './defined.ts'
import type { Cost } from './spending/spend.ts'
import type { FailedAttempt } from './call-facts.ts'
import type { Json } from './json.ts'
import { assumedCost, type Reservation } from './spending/reservation.ts'

/** pawl gives up on a call after this many attempts have died with their worker. */
export const MAX_DEATHS = 5

/**
 * pawl gives up on a call after the server has assigned this many of its attempts to processes that never reported in. Ten polls of a
 * frozen or dead process stay in the server's queue for about a minute, and the server may assign an attempt to each.
 */
export const MAX_UNREPORTED = 50

/** The code of an attempt that never sent a heartbeat. From a call's second attempt on, such an attempt has not begun. */
const UNREPORTED = 'not_begun'

/** The class of an attempt at a read that did not end as part of the model call. */
const LEFT_MODEL_CALL = 'LeftModelCall'

/**
 * A read's first attempt that was part of a model call and has no result. The next attempt follows at once and does not count as a retry.
 */
export function leftModelCall(why: string, worker: string): FailedAttempt {
  const message = `${why} The call continues on its own.`
  return { attempt: 1, class: LEFT_MODEL_CALL, message, retryable: true, nextDelayMs: 0, worker }
}

/** The lost attempt as a row of `errors`. `report`: the activity's last report, if there was one. */
export function lostAttempt(
  attempt: number,
  report: Pick<AttemptReport, 'attempt' | 'worker' | 'reserved' | 'spent'> | undefined,
): FailedAttempt {
  const about = { attempt, class: 'HeartbeatTimeout', retryable: true } as const
  const hasReported = report?.attempt === attempt
  if (!hasReported && attempt > 1) {
    return { ...about, code: UNREPORTED, message: 'No worker reported in: it was frozen or had exited before the attempt began.' }
  }
  return { ...about, message: 'The worker stopped sending heartbeats.', ...(hasReported && { worker: report.worker, ...lostCost(report) }) }
}

/** The cost of an attempt that did not report back: the cost that was seen, or else the whole amount reserved for it. */
export function lostCost({ reserved, spent = reserved && assumedCost(reserved) }: Pick<AttemptReport, 'reserved' | 'spent'>): {
  spent?: Cost
} {
  return spent ? { spent } : {}
}

/** The attempts of a call so far, over all its activities. */
export interface AttemptTally {
  /** Attempts made; the next one's number is one higher. */
  attempts: number
  /** Attempts that threw and count against the retry budget. For a model call, only those of the model being tried. */
  failures: number
  /** Attempts that died with their worker. */
  deaths: number
  /** Attempts that never began. Absent: none. */
  unreported?: number
  /** The model to try, if not the agent's own. */
  fallback?: Fallback
  /** Digest of the newest failed attempt, if it was unexpected. */
  unexpected?: string
}

/** The attempt of a job, as counted before the job began. */
export interface AttemptSoFar extends Pick<AttemptTally, 'failures' | 'fallback' | 'unexpected'> {
  /** Counted from 1 over all of the call's activities. */
  number: number
  /** Failed attempts of this activity. */
  failed: FailedAttempt[]
  /** The last progress that an earlier attempt reported. */
  lastProgress?: Json
}

/** The models of an agent that a call has given up on. */
export interface Fallback {
  /** How many models were given up on. The next model is the one at this position in the agent's `fallback`, counted from 1. */
  at: number
  /** The first of their transient failures. The run reports it if the last model fails permanently. */
  transient?: { code: string; reason: string }
}

/** The tally of a call without attempts, or of one that continues another's numbers. */
export function noAttempts({
  attempts = 0,
  unexpected,
}: {
  attempts?: number | undefined
  unexpected?: string | undefined
} = {}): AttemptTally {
  return { attempts, failures: 0, deaths: 0, ...defined({ unexpected }) }
}

/** The tally after these attempts. */
export function tallied(tally: AttemptTally, failed: readonly FailedAttempt[]): AttemptTally {
  const sum = { ...tally }
  for (const attempt of failed) addAttempt(sum, attempt)
  return sum
}

/** Adds an attempt, in place. Returns false if it was already counted. */
export function addAttempt(tally: AttemptTally, attempt: FailedAttempt): boolean {
  if (attempt.attempt <= tally.attempts) return false
  tally.attempts = attempt.attempt
  countFate(tally, fateOf(attempt))
  if (attempt.unexpected === undefined) delete tally.unexpected
  else tally.unexpected = attempt.unexpected
  return true
}

/**
 * Counts how an attempt ended, in place. An attempt does not count against its call if it was the `neighbour` of a call for which the
 * worker was killed, or a read that left its model call.
 */
export function countFate(tally: AttemptTally, fate: ReturnType<typeof fateOf>): void {
  if (fate === 'death') tally.deaths += 1
  else if (fate === 'failure') tally.failures += 1
  else if (fate === 'unreported') tally.unreported = (tally.unreported ?? 0) + 1
}

/** Whether too many attempts died with their worker. */
export function hasDiedTooOften({ deaths }: AttemptTally): boolean {
  return deaths >= MAX_DEATHS
}

/** Whether an attempt of the call was lost, so that it may have caused an executor's death. */
export function followsLoss({ deaths, unreported = 0 }: AttemptTally, failed: readonly FailedAttempt[]): boolean {
  return deaths + unreported > 0 || failed.some((attempt) => fateOf(attempt) !== 'failure')
}

/**
 * Whether the attempt died with its worker, threw, never began, left its model call, or was the `neighbour` of a call for which its worker
 * was killed.
 */
export function fateOf(attempt: FailedAttempt): 'death' | 'failure' | 'unreported' | 'neighbour' | 'left' {
  if (attempt.class === LEFT_MODEL_CALL) return 'left'
  if (attempt.class !== 'WorkerDied' && attempt.class !== 'HeartbeatTimeout') return 'failure'
  if (attempt.code === UNREPORTED) return 'unreported'
  return attempt.code === 'neighbour' ? 'neighbour' : 'death'
}

/** What is known about an attempt that did not report back: heartbeat details, and the details of `WorkerDied`. */
export interface AttemptReport {
  attempt: number
  /**
   * Of an `external` call: whether its body may have been entered. Of an attempt at a model call that waits for a worker that serves it:
   * whether one has asked the model. Always false for others, which may simply run again.
   */
  begun: boolean
  /** Failed attempts of this activity so far. */
  failed: FailedAttempt[]
  /** The process that had the attempt: the orchestrator, and in the report of a death the executor. */
  worker: string
  /** The executor that received the attempt, as shown to people; absent until there is one. */
  executor?: string
  /** The last progress that the body reported. */
  progress?: Json
  /** For a model call under a budget: the amount reserved before its request was sent. */
  reserved?: Reservation | undefined
  /** The cost of the call, if it was reported before the executor died. */
  spent?: Cost
  /** For a model call: the call with an effect that it is making. */
  riding?: RidingEffect | undefined
}

/**
 * A call with an effect that runs as part of the model call that requested it. The server has this before the body is entered, so whoever
 * finds the attempt lost continues from here and does not ask the model again.
 */
export interface RidingEffect {
  run: number
  turn: number
  callId: string
  /** The call's position in the answer. */
  index: number
  /** As in `Ticket`. */
  once?: true
  /** The result of the model call, without the outcome of the call. */
  answered: object
}

/** The failed attempts of an activity, for its result: an effect of theirs may have happened, and they may have cost something. */
export function lostIn({ failed }: Pick<AttemptSoFar, 'failed'>): { failed?: FailedAttempt[] } {
  return failed.length > 0 ? { failed } : {}
}

/** Details of the failure `WorkerDied`. */
export interface DeathReport extends AttemptReport {
  /** `neighbour`: the process was killed because of another call. */
  cause: 'crash' | 'stuck_loop' | 'overdue' | 'neighbour'
}

/** Details of the failure of an attempt that threw. */
export interface ThrownDetails {
  /** The error's class, if user code named its own. Absent: the failure's type. */
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

/**
 * Counts the attempt of the activity `info`. `prior`, `progress`: the workflow's data on earlier activities of the call. `uncounted`:
 * Temporal's earlier attempts were not attempts of the call, because no worker served it. `isGivenUp`: whether too many attempts died with
 * their worker.
 */
export function countAttempt(
  info: { attempt: number; heartbeatDetails: unknown },
  { prior = noAttempts(), progress, uncounted }: { prior?: AttemptTally | undefined; progress?: Json | undefined; uncounted?: true },
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

/** The heartbeat details before the body is entered. */
export function reportOf({ number, failed, lastProgress }: AttemptSoFar, worker: string): AttemptReport {
  return { attempt: number, begun: false, failed, worker, ...defined({ progress: lastProgress }) }
}
