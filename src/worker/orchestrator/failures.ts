// What an activity fails with, from how its job ended.
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { JobOrder, Outcome } from '../../jobs/contract.ts'
import type { AttemptReport, DeathReport } from '../../session/attempts.ts'
import type { Lease } from './leases.ts'

/** The failure of an outcome. An attempt that is to be recorded is, before Temporal hears of the failure. */
export async function failureOf(outcome: Exclude<Outcome, { kind: 'answered' }>, lease: Lease): Promise<ApplicationFailure> {
  const { type, message } = outcome
  if (outcome.kind === 'threw') {
    const failure = ApplicationFailure.create({ type, message, nonRetryable: false })
    if (outcome.stack !== undefined) failure.stack = outcome.stack
    return failure
  }
  // Unrecorded, it would count as an attempt that died: more than it was, and never less.
  if (outcome.failed) await lease.record({ failed: [...lease.report.failed, outcome.failed] }).catch(() => undefined)
  return ApplicationFailure.create({ type, message, nonRetryable: false, nextRetryDelay: outcome.afterMs })
}

/** The executor died with the job. The workflow decides by the call's effect; what only answers a question is simply asked again. */
export function workerDied({ kind, ticket }: JobOrder, report: AttemptReport, cause: DeathReport['cause']): ApplicationFailure {
  const details: DeathReport = { ...report, cause }
  return ApplicationFailure.create({
    type: 'WorkerDied',
    nonRetryable: kind !== 'resolveTool' && kind !== 'checkAnswer',
    message: `Worker ${report.worker} died (${cause}) while it held ${ticket.call}.`,
    details: [details],
  })
}

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
