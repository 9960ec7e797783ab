// What an activity without a result means to the workflow: it was cancelled, no body was entered, or its worker died.
import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/workflow'
import { type DeathReport, readReport, type RidingEffect, type ThrownDetails } from '../session/attempts.ts'
import { defined } from '../session/defined.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import { EndedBefore } from './inherited.ts'

/** Why an activity has no result. */
export type LostActivity =
  /** Cancelled before it could begin. */
  | { how: 'cancelled' }
  /** No worker started it, or only one that does not know it, so no body was entered. */
  | { how: 'not_begun'; message: string }
  /** Its worker died (`confirmed`: a supervisor saw it) or stopped responding. `begun`: as in `AttemptReport`. */
  | { how: 'died'; confirmed: boolean; begun: boolean; report: DeathReport | undefined; message: string; failureClass: string }
  /** The wrapper itself failed. */
  | { how: 'failed'; message: string; failureClass: string }

/** A call that ran as part of a model call was lost with it. */
export class RideLost extends Error {
  override readonly name = 'RideLost'
  readonly how: LostActivity & { how: 'died' }

  constructor(how: LostActivity & { how: 'died' }) {
    super(how.message)
    this.how = how
  }
}

/** The call that was lost with this model call, as if it had been an activity of its own; undefined if there is none. */
export function lostRideIn(lost: LostActivity): { call: RidingEffect; lost: RideLost } | undefined {
  const call = lost.how === 'died' ? lost.report?.riding : undefined
  if (lost.how !== 'died' || !lost.report || !call) return undefined
  // What the model cost is part of its answer.
  const { worker, cause, progress } = lost.report
  const report = { attempt: 1, begun: true, failed: [], worker, cause, ...defined({ progress }) }
  return { call, lost: new RideLost({ ...lost, begun: true, report }) }
}

/** Reads the failure of an activity; rethrows any other error. */
export function whyLost(error: unknown): LostActivity {
  if (error instanceof RideLost) return error.how
  if (error instanceof CancelledFailure) return { how: 'cancelled' }
  if (error instanceof EndedBefore) {
    return { how: 'died', confirmed: false, begun: true, report: undefined, message: error.message, failureClass: error.name }
  }
  if (error instanceof UndecodableAnswer) return { how: 'failed', message: error.message, failureClass: error.name }
  if (!(error instanceof ActivityFailure)) throw error
  const { cause } = error
  if (cause instanceof CancelledFailure) return { how: 'cancelled' }
  if (cause instanceof TimeoutFailure) {
    const { report, begun } = readReport(cause.lastHeartbeatDetails)
    return {
      how: 'died',
      confirmed: false,
      begun,
      report: report && { ...report, cause: 'crash' },
      message: `The worker stopped sending heartbeats (${cause.timeoutType ?? 'timeout'}).`,
      failureClass: cause.timeoutType === 'HEARTBEAT' ? 'HeartbeatTimeout' : 'Timeout',
    }
  }
  if (cause instanceof ApplicationFailure && (cause.type === 'WorkerLost' || cause.type === 'ResetWorkflow')) {
    const { report, begun } = readReport(cause.details?.[0])
    if (report?.riding) {
      const message = 'The worker stopped sending heartbeats.'
      return { how: 'died', confirmed: false, begun, report: { cause: 'crash', ...report }, message, failureClass: 'HeartbeatTimeout' }
    }
  }
  if (cause instanceof ApplicationFailure && cause.type === 'WorkerDied') {
    const { report, begun } = readReport(cause.details?.[0])
    return {
      how: 'died',
      confirmed: true,
      begun,
      report: report && { cause: 'crash', ...report },
      message: cause.message,
      failureClass: 'WorkerDied',
    }
  }
  const thrown = thrownIn(cause)
  const message = cutText(thrown.message ?? cause?.message ?? error.message, TEXT_BYTES.reason)
  if (cause instanceof ApplicationFailure && cause.type === 'NotFoundError') return { how: 'not_begun', message }
  const type = cause instanceof ApplicationFailure ? cause.type : undefined
  return { how: 'failed', message, failureClass: thrown.class ?? type ?? 'Error' }
}

/** The error of an attempt, if its failure carries one. */
function thrownIn(cause: Error | undefined): Partial<ThrownDetails> {
  const given = (cause instanceof ApplicationFailure && (cause.details?.[0] as { [K in keyof ThrownDetails]?: unknown } | undefined)) || {}
  return {
    ...(typeof given.class === 'string' && { class: given.class }),
    ...(typeof given.message === 'string' && { message: given.message }),
  }
}

/** This worker's payload converter cannot decode an activity's result. Repeating the activity could repeat an effect. */
class UndecodableAnswer extends Error {
  override readonly name = 'UndecodableAnswer'
}

/** The activity's result. Synchronous, because another promise would change the order of a task's commands. @throws UndecodableAnswer. */
export function answerIn<T>(result: T): T {
  const given: unknown = result
  if (given instanceof Undecodable) throw new UndecodableAnswer(`The activity's result cannot be decoded: ${given.reason}.`)
  return result
}

/** Waits. Returns true if an interrupt ended the wait. */
export async function interruptedWhile(wait: Promise<void>): Promise<boolean> {
  try {
    await wait
    return false
  } catch (error) {
    if (whyLost(error).how === 'cancelled') return true
    throw error
  }
}
