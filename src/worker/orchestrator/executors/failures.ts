// What follows the end of a job without a result: another attempt, or the failure of its activity.
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import { type JobKind, type JobOrder, type JobOutcome, nameOfSubject, type Ticket } from '../../../calls/jobs.ts'
import {
  type AttemptReport,
  type DeathReport,
  hasDiedTooOften,
  noAttempts,
  tallied,
  type ThrownDetails,
} from '../../../session/attempts.ts'
import type { CallModelInput } from '../../../calls/activities.ts'
import { brokenCost } from '../../../session/spending/reservation.ts'
import { type Cost, costOfUsage } from '../../../session/spending/spend.ts'
import type { AssignmentEnd } from './executor-state.ts'
import type { FailedAttempt } from '../../../session/call-facts.ts'
import type { Lease } from '../heartbeats/leases.ts'
import { defined } from '../../../session/defined.ts'

/**
 * Errors of user code go into a failure's details, which the user's converter and codecs encode. Types, messages and stacks are plain text
 * for the server and for everyone who can read histories.
 */
const THREW = 'The attempt threw an error. See the details of this failure.'

/** The failure for an outcome. Records a failed attempt before Temporal gets the failure. */
export async function failureOf(outcome: Exclude<JobOutcome, { kind: 'answered' }>, lease: Lease): Promise<ApplicationFailure> {
  const { type, message } = outcome
  if (outcome.kind === 'threw') {
    return failureWith({ class: type, message, ...defined({ stack: outcome.stack }) })
  }
  // If the failed attempt cannot be recorded, it counts as a death, which is stricter, never laxer.
  if (outcome.failed) await lease.record({ failed: [...lease.report.failed, outcome.failed] }).catch(() => undefined)
  const text = outcome.failed ? { message: THREW, details: [{ message } satisfies ThrownDetails] } : { message }
  return ApplicationFailure.create({ type, ...text, nonRetryable: false, nextRetryDelay: outcome.afterMs })
}

/** A failure of an activity whose details alone contain what was thrown. */
export function failureWith(thrown: ThrownDetails): ApplicationFailure {
  return ApplicationFailure.create({ type: 'AttemptThrew', message: THREW, details: [thrown], nonRetryable: false })
}

/**
 * The executor died with the job. For a call, its effect decides what the workflow does. Activities that only ask a question are retried.
 */
export function workerDied({ kind, ticket }: JobOrder, report: AttemptReport, cause: DeathReport['cause']): ApplicationFailure {
  const details: DeathReport = { ...report, cause }
  return ApplicationFailure.create({
    type: 'WorkerDied',
    nonRetryable: !isRetriedByTemporal(kind),
    message: deathIn(ticket, report.worker, cause),
    details: [details],
  })
}

/** The executor died with the attempt, and no orchestrator saw it. The report comes from the attempt's last heartbeat. */
export function diedUnseen(kind: JobKind, report: AttemptReport, worker: string): ApplicationFailure {
  const details: DeathReport = { ...report, worker, cause: 'crash' }
  return ApplicationFailure.create({
    type: 'WorkerDied',
    nonRetryable: !isRetriedByTemporal(kind),
    message: `Executor ${worker} died (crash) together with its orchestrator.`,
    details: [details],
  })
}

/** An executor died together with its orchestrator, and may have had the attempt, of which no heartbeat was sent. */
export function diedUnreported(kind: JobKind): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'WorkerDied',
    nonRetryable: !isRetriedByTemporal(kind),
    message: 'An executor died together with its orchestrator, before the first heartbeat of the attempt.',
  })
}

/** Records the same death as a failed attempt, for a call that another executor continues. */
function deadAttempt({ attempt, ticket }: JobOrder, worker: string, cause: DeathReport['cause']): FailedAttempt {
  return {
    attempt: attempt.number,
    class: 'WorkerDied',
    message: deathIn(ticket, worker, cause),
    retryable: true,
    worker,
    ...(cause !== 'crash' && { code: cause }),
  }
}

/**
 * Returns the order of the next attempt if the dead executor had handed over an answer. The death counts as a failed attempt. Undefined if
 * there is no answer, or if resolving its calls has killed too many executors.
 */
export function afterDeath(order: JobOrder, { cause, worker }: AssignmentEnd & { end: 'died' }): JobOrder | undefined {
  if (!order.answer) return undefined
  const { attempt, ticket } = order
  const failed = [...attempt.failed, deadAttempt(order, worker, cause)]
  const { prior } = order.input as CallModelInput
  if (hasDiedTooOften(tallied(prior ?? noAttempts(), failed))) return undefined
  const number = attempt.number + 1
  return { ...order, attempt: { ...attempt, number, failed }, ticket: { ...ticket, report: { ...ticket.report, attempt: number, failed } } }
}

/**
 * Returns the order of the next attempt of a call that was withdrawn from its executor after its request may have been sent. A failed
 * attempt records the cost. Undefined if there is no cost, or if the order has an answer.
 */
export function afterMove(order: JobOrder, { spent, executor, worker }: AttemptReport): JobOrder | undefined {
  if (!spent || order.answer) return undefined
  const { attempt, ticket } = order
  const failed = [...attempt.failed, { ...deadAttempt(order, executor ?? worker, 'neighbour'), spent }]
  const number = attempt.number + 1
  return { ...order, attempt: { ...attempt, number, failed }, ticket: { ...ticket, report: { ...ticket.report, attempt: number, failed } } }
}

/** What a model call under a budget has cost, as far as this process has seen it; undefined if nothing was reserved for it. */
export function costSeen(
  { answer }: Pick<JobOrder, 'answer'>,
  { reserved }: Pick<AttemptReport, 'reserved'>,
  assignment: { tokensSoFar?: number } | undefined,
): Cost | undefined {
  if (!reserved) return undefined
  return answer ? (answer.spent ?? costOfUsage(answer.usage, answer.price)) : brokenCost(reserved, assignment?.tokensSoFar ?? 0)
}

/** The job was taken back from its executor, which had to end because of another call, and no other executor got it. */
export function tookBack(order: JobOrder, report: AttemptReport): ApplicationFailure {
  return workerDied(order, { ...report, worker: report.executor ?? report.worker }, 'neighbour')
}

function deathIn({ subject }: Ticket, worker: string, cause: DeathReport['cause']): string {
  const during = `during ${nameOfSubject(subject)}`
  // A job that was taken back from it ends before its process does.
  return cause === 'neighbour'
    ? `Executor ${worker} had to end because of another call, ${during}.`
    : `Executor ${worker} died (${cause}) ${during}.`
}

/**
 * The orchestrator that received the attempt died before it dispatched it. The workflow gets the failure of an activity that no worker has
 * started: nothing was begun, and this does not count as an attempt.
 */
export function neverDispatched(kind: JobKind): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'NotFoundError',
    nonRetryable: !isRetriedByTemporal(kind),
    message: 'The orchestrator that received the attempt died before it dispatched it.',
  })
}

/** Whether only Temporal retries the activity, because the sender of an update waits for its answer or because nothing else retries it. */
const isRetriedByTemporal = (kind: JobKind): boolean => kind === 'resolveTool' || kind === 'checkAnswer' || kind === 'endHooks'

/** The attempt was stopped before its executor had accepted it. */
export function stoppedBeforeStart(): CancelledFailure {
  return new CancelledFailure('The attempt was stopped before it began.')
}
