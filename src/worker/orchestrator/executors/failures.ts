// The failures of activities, made from the outcomes of their jobs.
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import { type JobKind, type JobOrder, type JobOutcome, nameOfSubject, type Ticket } from '../../../calls/jobs.ts'
import type { AttemptReport, DeathReport, ThrownDetails } from '../../../session/attempts.ts'
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
export function deadAttempt({ attempt, ticket }: JobOrder, worker: string, cause: DeathReport['cause']): FailedAttempt {
  return {
    attempt: attempt.number,
    class: 'WorkerDied',
    message: deathIn(ticket, worker, cause),
    retryable: true,
    worker,
    ...(cause !== 'crash' && { code: cause }),
  }
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
