// Handles model calls whose executor ends after the model's answer was complete. Another executor gets the answer and resolves its calls.
import type { CallModelInput } from '../../../calls/activities.ts'
import { type JobOrder, type JobSubject, type ModelAnswer, nameOfSubject } from '../../../calls/jobs.ts'
import { type AttemptReport, hasDiedTooOften, noAttempts, tallied } from '../../../session/attempts.ts'
import { type Cost, costOfUsage } from '../../../session/spending/spend.ts'
import { brokenCost } from '../../../session/spending/reservation.ts'
import type { AssignmentEnd, Executor } from './executor-state.ts'
import { deadAttempt } from './failures.ts'

/** Returns the order, with the answer if its executor has handed one over. */
export function withAnswer(order: JobOrder, assignment: { answer?: ModelAnswer | undefined } | undefined): JobOrder {
  return assignment?.answer ? { ...order, answer: assignment.answer } : order
}

/** The answer that an executor has handed over for an earlier attempt of the same call. */
export function answerIn(executors: Iterable<Executor>, { kind, ticket }: JobOrder): ModelAnswer | undefined {
  if (kind !== 'callModel') return undefined
  for (const { assignments } of executors) {
    for (const { order, answer } of assignments.values()) {
      if (answer && order.ticket.executionId === ticket.executionId && isSame(order.ticket.subject, ticket.subject)) return answer
    }
  }
  return undefined
}

const isSame = (one: JobSubject, other: JobSubject): boolean => nameOfSubject(one) === nameOfSubject(other)

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
