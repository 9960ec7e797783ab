// What an activity fails with, from how its job ended.
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { JobKind, JobOrder, Outcome } from '../../jobs/contract.ts'
import type { AttemptReport, DeathReport, Thrown } from '../../session/attempts.ts'
import type { Lease } from './leases.ts'
import { defined } from '../../session/defined.ts'

/**
 * What user code threw goes into a failure's details, which the user's converter and codecs encode. Messages and stacks are plain text to
 * the server and to everyone who may read histories.
 */
const THREW = 'The attempt threw: the details of this failure say what.'

/** The failure of an outcome. An attempt that is to be recorded is, before Temporal hears of the failure. */
export async function failureOf(outcome: Exclude<Outcome, { kind: 'answered' }>, lease: Lease): Promise<ApplicationFailure> {
  const { type, message } = outcome
  if (outcome.kind === 'threw') {
    const thrown: Thrown = { message, ...defined({ stack: outcome.stack }) }
    return ApplicationFailure.create({ type, message: THREW, details: [thrown], nonRetryable: false })
  }
  // Unrecorded, it would count as an attempt that died: more than it was, and never less.
  if (outcome.failed) await lease.record({ failed: [...lease.report.failed, outcome.failed] }).catch(() => undefined)
  const said = outcome.failed ? { message: THREW, details: [{ message } satisfies Thrown] } : { message }
  return ApplicationFailure.create({ type, ...said, nonRetryable: false, nextRetryDelay: outcome.afterMs })
}

/** The executor died with the job. The workflow decides by the call's effect; what only answers a question is simply asked again. */
export function workerDied({ kind, ticket }: JobOrder, report: AttemptReport, cause: DeathReport['cause']): ApplicationFailure {
  const details: DeathReport = { ...report, cause }
  return ApplicationFailure.create({
    type: 'WorkerDied',
    nonRetryable: !isQuestion(kind),
    message: `Worker ${report.worker} died (${cause}) while it held ${ticket.call}.`,
    details: [details],
  })
}

/**
 * The orchestrator that was handed the attempt died before an executor had it. The workflow is told what the server says of an activity
 * that no worker has: nothing was begun, and it counts as no attempt.
 */
export function neverGiven(kind: JobKind): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'NotFoundError',
    nonRetryable: !isQuestion(kind),
    message: 'The orchestrator that was handed the attempt died before an executor had it.',
  })
}

/** Its sender waits for the answer: Temporal itself asks again. */
const isQuestion = (kind: JobKind): boolean => kind === 'resolveTool' || kind === 'checkAnswer'

/** One executor after the other died, or stood still, before it accepted the job. */
export function givenUpMoving({ ticket }: JobOrder): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'NotServed',
    nonRetryable: false,
    message: `No executor accepted ${ticket.call}: each one died or stood still first.`,
    nextRetryDelay: 1_000,
  })
}

/** The attempt was stopped before its executor had accepted it. */
export function stoppedUnbegun(): CancelledFailure {
  return new CancelledFailure('The attempt was stopped before it began.')
}
