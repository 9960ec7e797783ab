// Requests whose senders named them, so that they can repeat them. The server recognises an update that it has sent to the same execution;
// this recognises interrupts, and what an earlier execution of the session has carried out.
import { jsonBytes } from '../../session/json.ts'
import { type AnsweredRequest, REQUEST_ID } from '../../session/protocol/protocol.ts'

/** What continue-as-new carries. */
const MAX_ANSWERED = 50
const MAX_BYTES = 64_000

// Each workflow has its own instance of this module.
const answered = new Map<string, AnsweredRequest>()

/** Notes that a request was carried out. Ids that no sender has chosen are not repeated. */
export function noteAnswered(id: string, answer?: unknown): void {
  if (id.startsWith(REQUEST_ID)) answered.set(id, { id, ...(answer !== undefined && { answer }) })
}

/** The request, if it was carried out. */
export const answeredRequest = (id: string): AnsweredRequest | undefined => answered.get(id)

/** Continues with what the previous execution has carried out. */
export function continueAnswered(carried: unknown): void {
  for (const one of Array.isArray(carried) ? (carried as AnsweredRequest[]) : []) noteAnswered(one.id, one.answer)
}

/** The newest requests, as many as continue-as-new carries, oldest first. */
export function answeredRequests(): AnsweredRequest[] {
  const newest: AnsweredRequest[] = []
  let bytes = 0
  for (const one of [...answered.values()].toReversed().slice(0, MAX_ANSWERED)) {
    bytes += jsonBytes(one)
    if (bytes > MAX_BYTES) break
    newest.unshift(one)
  }
  return newest
}
