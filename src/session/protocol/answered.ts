// Requests that were carried out and that their senders may repeat, because they have named them.
import { jsonBytes } from '../json.ts'
import type { AnsweredRequest } from './protocol.ts'

/** What an execution passes on to the next one. */
const MAX_ANSWERED = 50
const MAX_BYTES = 64_000

/** The result of a session's workflow: the next execution finds in it what it must not carry out again. */
export interface ClosedSession {
  answered: AnsweredRequest[]
}

/** The newest of the requests, as many as are passed on, oldest first. */
export function newestAnswered(all: readonly AnsweredRequest[]): AnsweredRequest[] {
  const newest: AnsweredRequest[] = []
  let bytes = 0
  for (const one of all.slice(-MAX_ANSWERED).toReversed()) {
    bytes += jsonBytes(one)
    if (bytes > MAX_BYTES) break
    newest.unshift(one)
  }
  return newest
}

/** The requests of a list that any program may have written. */
export function soundAnswered(given: unknown): AnsweredRequest[] {
  if (!Array.isArray(given)) return []
  return (given as Partial<AnsweredRequest>[]).flatMap((one) => {
    if (typeof one?.id !== 'string') return []
    const { id, answer } = one
    return [{ id, ...(answer !== undefined && { answer }) }]
  })
}
