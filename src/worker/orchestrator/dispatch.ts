// Jobs on their way: each has a lease from the moment it is there, is given to one executor after another until one has accepted it,
// and ends with what the activity is to answer.
import type { JobListener } from '../../activities/needs.ts'
import type { JobOrder } from '../../jobs/contract.ts'
import type { Holding } from '../protocol.ts'
import type { AssignmentEnd, Executor } from './executors.ts'
import { failureOf, givenUpMoving, stoppedUnbegun, workerDied } from './failures.ts'
import type { Lease, Leases } from './leases.ts'
import type { Given, Placed, Pool } from './pool.ts'
import { defined } from '../../session/defined.ts'

/** Times that one job is given to executors that die, or stand still, before they accept it. */
const MOST_PLACINGS = 5

/** What the activity answers; undefined if no executor could take the job on. */
export type Answer = { result: unknown } | undefined

/** What carries jobs to executors. */
export interface Dispatcher {
  /** Has a job carried out. Rejects with what the activity is to fail with. */
  dispatch(order: JobOrder, listener?: JobListener): Promise<Answer>
  /** Takes over a job that an executor has held since before this orchestrator was there. */
  adopt(executor: Executor, held: Holding): Promise<Answer>
}

/** A job on its way. */
interface Underway extends Given {
  at?: Placed
  /** Told once, perhaps while no executor had it. */
  isStopped: boolean
  /** Whether an executor had accepted it before it was taken back. */
  mayHaveBegun: boolean
}

/** Carries jobs to the executors of a pool. */
export function dispatcherTo(pool: Pool, leases: Leases): Dispatcher {
  /** A stop goes to whichever executor has it. */
  function setOut(order: JobOrder, listener: JobListener = {}): Underway {
    const lease = leases.take(order.ticket, (why) => {
      job.isStopped = true
      if (job.at) pool.stop(job.at, why)
    })
    const job: Underway = { order, lease, listener, isStopped: false, mayHaveBegun: false }
    return job
  }

  async function dispatch(order: JobOrder, listener?: JobListener): Promise<Answer> {
    const job = setOut(order, listener)
    try {
      // From its second attempt on any call begins once the server has heard of the attempt: one that was handed to a process that is
      // frozen or gone says nothing against the call. If the server cannot be reached, it begins all the same.
      if (order.attempt.number > 1) await announce(job.lease)
      return await carry(job)
    } finally {
      job.lease.release()
    }
  }

  async function adopt(executor: Executor, held: Holding): Promise<Answer> {
    const { begun, progress, outcome } = held
    const ticket = { ...held.order.ticket, report: { ...held.order.ticket.report, begun, ...defined({ progress }) } }
    const job = setOut({ ...held.order, ticket })
    try {
      // The dead orchestrator's last heartbeat may be long ago, and this one may not live until its next: the attempt outlives them all.
      if (!outcome) void announce(job.lease)
      job.at = pool.keep(executor, held, job)
      const answer = await resultOf(await job.at.ended, job)
      return answer === 'again' ? await carry(job) : answer
    } finally {
      job.lease.release()
    }
  }

  async function carry(job: Underway): Promise<Answer> {
    for (let placings = 0; placings < MOST_PLACINGS; placings++) {
      await pool.someone()
      if (job.isStopped) throw job.mayHaveBegun ? workerDied(job.order, job.lease.report, 'neighbour') : stoppedUnbegun()
      const placed = pool.give(job)
      if (!placed) return undefined
      job.at = placed
      const answer = await resultOf(await placed.ended, job)
      if (answer !== 'again') return answer
    }
    throw givenUpMoving(job.order)
  }

  return { dispatch, adopt }
}

const announce = (lease: Lease): Promise<void> => lease.announce().catch(() => undefined)

/** What the activity answers, or `again` if another executor is to have the job. */
async function resultOf(how: AssignmentEnd, job: Underway): Promise<{ result: unknown } | 'again'> {
  const { order, lease } = job
  job.mayHaveBegun ||= job.at?.assignment.isAccepted === true
  switch (how.end) {
    case 'done':
      if (how.outcome.kind === 'answered') return { result: how.outcome.result }
      throw await failureOf(how.outcome, lease)
    case 'moved':
      return 'again'
    case 'died':
      if (!how.isAccepted) return 'again'
      throw workerDied(order, { ...lease.report, worker: how.worker }, how.cause)
    case 'stopped':
      throw stoppedUnbegun()
  }
}
