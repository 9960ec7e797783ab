// Dispatches jobs. Each job has a lease from the start, is offered to one executor after another until one accepts it, and ends with the
// activity's result.
import type { ApplicationFailure } from '@temporalio/common'
import type { JobListener } from '../../../activities/needs.ts'
import type { JobOrder } from '../../../calls/jobs.ts'
import type { HeldJobReport } from '../../protocol.ts'
import type { Assignment, AssignmentEnd, Executor } from './executor-state.ts'
import { answerHeldBy, keepAnswers, withEarlier } from './answered.ts'
import { afterDeath, afterMove, costSeen, failureOf, stoppedBeforeStart, tookBack, workerDied } from './failures.ts'
import type { Lease, Leases } from '../heartbeats/leases.ts'
import type { JobToAssign, Pool } from './pool.ts'
import type { AttemptReport } from '../../../session/attempts.ts'
import { defined } from '../../../session/defined.ts'
import { steadyNow } from '../../steady-clock.ts'

/**
 * How many times a job is assigned to executors that die or freeze before they accept it. The last one keeps it until it responds or dies:
 * executors whose event loops are blocked in turns would otherwise pass it on for ever.
 */
const MAX_PLACEMENTS = 5
/** How long a model's answer is kept while no executor accepts jobs. Executors may take this long to start. */
const KEEP_ANSWER_MS = 30_000

/** The activity's result; undefined if no executor could accept the job. */
export type JobAnswer = { result: unknown } | undefined

export interface Dispatcher {
  /** Runs a job. Rejects with the activity's failure. */
  dispatch(order: JobOrder, listener?: JobListener): Promise<JobAnswer>
  /** Adopts a job that an executor got from an earlier orchestrator. */
  adopt(executor: Executor, held: HeldJobReport): Promise<JobAnswer>
}

interface Underway extends JobToAssign {
  /** Its newest assignment. */
  at?: Assignment
  /** Aborted once, possibly while no executor has the job. */
  stopped: AbortSignal
  /** Whether an executor had accepted the job before it was withdrawn. */
  mayHaveBegun: boolean
  /** The death of the last executor, if the job is kept for another one. */
  died?: ApplicationFailure
}

export function dispatcherTo(pool: Pool, leases: Leases): Dispatcher {
  const kept = keepAnswers()

  /** Acquires the job's lease, and passes a stop to the executor that has the job. */
  function prepare(order: JobOrder, listener: JobListener = {}): Underway {
    const stop = new AbortController()
    const lease = leases.take(order.ticket, (why) => {
      stop.abort()
      if (job.at) pool.stop(job.at, why)
    })
    const job: Underway = { order, lease, listener, stopped: stop.signal, mayHaveBegun: false }
    return job
  }

  async function dispatch(asked: JobOrder, listener?: JobListener): Promise<JobAnswer> {
    // The server may have given up on an attempt whose executor is still working, because its orchestrator died and the heartbeats stopped.
    const order = withEarlier(asked, answerHeldBy(pool.executors(), asked) ?? kept.of(asked))
    const job = prepare(order, listener)
    try {
      // From the second attempt on, every call begins after the server has confirmed the attempt, so that an attempt assigned to a frozen
      // or dead process does not count against the call. If the server cannot be reached, the call begins anyway.
      if (order.attempt.number > 1) await announce(job.lease)
      return await placeAndNote(job)
    } finally {
      job.lease.release()
    }
  }

  async function placeAndNote(job: Underway): Promise<JobAnswer> {
    const answer = await place(job)
    if (answer) kept.note(job.order, answer.result)
    return answer
  }

  async function adopt(executor: Executor, held: HeldJobReport): Promise<JobAnswer> {
    const { begun, progress, riding, reserved, outcome } = held
    const ticket = { ...held.order.ticket, report: { ...held.order.ticket.report, begun, ...defined({ progress, riding, reserved }) } }
    const job = prepare({ ...held.order, ticket })
    try {
      // The dead orchestrator's last heartbeat may be old, and this orchestrator may die before its next one, so send one now.
      if (!outcome) void announce(job.lease)
      job.at = pool.keep(executor, held, job)
      const answer = await resultOf(await job.at.ended, job)
      if (answer === 'again') return await placeAndNote(job)
      kept.note(job.order, answer.result)
      return answer
    } finally {
      job.lease.release()
    }
  }

  async function place(job: Underway): Promise<JobAnswer> {
    for (let placements = 0; placements < MAX_PLACEMENTS; placements++) {
      const hasExecutor = await waitForExecutor(job)
      if (job.stopped.aborted) throw job.died ?? (job.mayHaveBegun ? tookBack(job.order, reportOn(job)) : stoppedBeforeStart())
      const assignment = pool.give(job, placements === MAX_PLACEMENTS - 1)
      if (!assignment) {
        // Other work took the executor first.
        if (hasExecutor) continue
        return unplaced(job)
      }
      job.at = assignment
      const answer = await resultOf(await assignment.ended, job)
      if (answer !== 'again') return answer
    }
    return unplaced(job)
  }

  async function waitForExecutor({ order, stopped }: Underway): Promise<boolean> {
    const until = steadyNow() + (order.answer ? KEEP_ANSWER_MS : 0)
    let hasExecutor = await pool.waitForExecutor(order, stopped)
    while (!hasExecutor && !stopped.aborted && steadyNow() < until) hasExecutor = await pool.waitForExecutor(order, stopped)
    return hasExecutor
  }

  return { dispatch, adopt }
}

/** No executor accepts the job now, so that its call counts as not begun, unless one had accepted it before it died or lost the job. */
function unplaced(job: Underway): undefined {
  if (job.died) throw job.died
  if (job.mayHaveBegun) throw tookBack(job.order, reportOn(job))
}

const announce = (lease: Lease): Promise<void> => lease.announce().catch(() => undefined)

/** The activity's result, or `again` if another executor must get the job. */
async function resultOf(how: AssignmentEnd, job: Underway): Promise<{ result: unknown } | 'again'> {
  // Its executor may have handed over the model's answer.
  if (job.at?.answer) job.order = { ...job.order, answer: job.at.answer }
  const { order, lease } = job
  job.mayHaveBegun ||= job.at?.isAccepted === true
  switch (how.end) {
    case 'done':
      if (how.outcome.kind === 'answered') return { result: how.outcome.result }
      // The workflow must learn of the call that it was making.
      throw lease.report.riding ? workerDied(order, reportOn(job), 'crash') : await failureOf(how.outcome, lease)
    case 'moved': {
      if (lease.report.riding) throw tookBack(order, reportOn(job))
      const next = afterMove(order, reportOn(job))
      if (next) await passOn(job, next)
      return 'again'
    }
    case 'died': {
      if (!how.isAccepted) return 'again'
      const died = workerDied(order, { ...reportOn(job), worker: how.worker }, how.cause)
      const next = lease.report.riding ? undefined : afterDeath(order, how)
      if (!next) throw died
      job.died = died
      await passOn(job, next)
      return 'again'
    }
    case 'stopped':
      throw stoppedBeforeStart()
  }
}

/** Continues the call with another attempt. Records the previous one, which would be lost if the orchestrator died next. */
async function passOn(job: Underway, next: JobOrder): Promise<void> {
  job.order = next
  const { number: attempt, failed } = next.attempt
  // The reservation is now part of a failed attempt, unless it covers an answer that only this process has.
  const settled = next.answer ? {} : { reserved: undefined }
  await job.lease.record({ attempt, failed, ...settled }).catch(() => undefined)
}

/** What is known about the attempt, including its cost. */
function reportOn({ lease, order, at }: Underway): AttemptReport {
  const spent = costSeen(order, lease.report, at)
  return { ...lease.report, ...defined({ spent }) }
}
