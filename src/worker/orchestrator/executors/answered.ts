// Handles model calls that are repeated although the model's answer was complete: their executor ended before the calls were resolved, or the
// server did not receive the result. Another executor gets the answer, and the model is not asked and paid again.
import { LRUCache } from 'lru-cache'
import type { CallModelResult } from '../../../calls/activities.ts'
import { type JobOrder, type JobSubject, type ModelAnswer, nameOfSubject } from '../../../calls/jobs.ts'
import { defined } from '../../../session/defined.ts'
import { jsonBytes } from '../../../session/json.ts'
import type { Executor } from './executor-state.ts'

/** A complete answer, and the attempt that received it. */
interface EarlierAnswer {
  answer: ModelAnswer
  attempt: number
}

/**
 * The order of a repeated attempt, with the answer that an earlier one received. The cost that was assumed for that attempt is the answer's
 * own, which counts with the answer.
 */
export function withEarlier(order: JobOrder, known: EarlierAnswer | undefined): JobOrder {
  if (!known) return order
  const { attempt, ticket } = order
  const failed = attempt.failed.map(({ spent, ...one }) => (one.attempt === known.attempt ? one : { ...one, ...defined({ spent }) }))
  return { ...order, attempt: { ...attempt, failed }, ticket: { ...ticket, report: { ...ticket.report, failed } }, answer: known.answer }
}

/** The server repeats a call whose heartbeats are missing within seconds of its return. */
const KEPT_MS = 60 * 60_000
const KEPT_BYTES = 32_000_000

export interface KeptAnswers {
  /** Keeps the answer of a model call that has ended. */
  note(order: JobOrder, result: unknown): void
  /** The answer of an earlier attempt of the same activity. */
  of(order: JobOrder): EarlierAnswer | undefined
}

/** Keeps the newest answers, because the server may be unreachable when a model call ends, and repeats the call once it is back. */
export function keepAnswers(): KeptAnswers {
  const kept = new LRUCache<string, EarlierAnswer>({ ttl: KEPT_MS, maxSize: KEPT_BYTES, sizeCalculation: jsonBytes })
  const nameOf = ({ executionId, activityId }: JobOrder['ticket']): string => `${executionId}/${activityId}`
  return {
    note({ kind, ticket, attempt: { number }, answer }, result) {
      const ended = kind === 'callModel' ? (result as CallModelResult) : undefined
      if (ended?.kind === 'completed') kept.set(nameOf(ticket), { answer: answer ?? answerOf(ended), attempt: number })
    },
    of: ({ kind, ticket }) => (kind === 'callModel' ? kept.get(nameOf(ticket)) : undefined),
  }
}

/** An answer that was not handed over has no calls and ran no hooks. */
function answerOf(result: CallModelResult & { kind: 'completed' }): ModelAnswer {
  const { content, blob, stopReason, usage, model, provider, price, spent, promptDigest, replaced } = result
  return { content, stopReason, usage, model, ...defined({ blob, provider, price, spent, promptDigest, replaced }) }
}

/** The answer that an executor has handed over for an earlier attempt of the same call. */
export function answerHeldBy(executors: Iterable<Executor>, { kind, ticket }: JobOrder): EarlierAnswer | undefined {
  if (kind !== 'callModel') return undefined
  for (const { assignments } of executors) {
    for (const { order, answer } of assignments.values()) {
      if (answer && order.ticket.executionId === ticket.executionId && isSame(order.ticket.subject, ticket.subject))
        return { answer, attempt: order.attempt.number }
    }
  }
  return undefined
}

const isSame = (one: JobSubject, other: JobSubject): boolean => nameOfSubject(one) === nameOfSubject(other)
