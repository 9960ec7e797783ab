// Requests whose senders named them, so that they can repeat them. The server recognises an update that it has sent to the same execution;
// this recognises signals, and what an earlier execution of the session has carried out. It also recognises another request with the same name.
import { newestAnswered, soundAnswered } from '../../session/protocol/answered.ts'
import { type AnsweredRequest, REQUEST_ID } from '../../session/protocol/protocol.ts'
import { areDifferent, nameIn, REUSED } from '../../session/protocol/request-names.ts'
import { refuse } from '../session-parts.ts'

// Each workflow has its own instance of this module.
const answered = new Map<string, AnsweredRequest>()
/** Ids of named requests that are being carried out, by name. */
const inProgress = new Map<string, string>()

/** Notes that a request was carried out. Ids that no sender has chosen are not repeated. */
export function noteAnswered(id: string, answer?: unknown): void {
  if (id.startsWith(REQUEST_ID)) answered.set(nameIn(id), { id, ...(answer !== undefined && { answer }) })
}

/** The request, if it was carried out. */
export function answeredRequest(id: string): AnsweredRequest | undefined {
  const earlier = answered.get(nameIn(id))
  return earlier && !areDifferent(earlier.id, id) ? earlier : undefined
}

/** Notes that a request is being carried out, until it has its outcome. */
export function noteUntilEnd(id: string, outcome: Promise<unknown>): void {
  const name = nameIn(id)
  const end = (): void => {
    if (inProgress.get(name) === id) inProgress.delete(name)
  }
  inProgress.set(name, id)
  outcome.then(end, end)
}

/** Whether another request has the same name. */
export function isReused(id: string): boolean {
  const name = nameIn(id)
  const earlier = inProgress.get(name) ?? answered.get(name)?.id
  return earlier !== undefined && areDifferent(earlier, id)
}

/** Refuses a request whose name another one has. */
export function refuseReused(): never {
  return refuse(REUSED.code, REUSED.reason)
}

/** Continues with what earlier executions have carried out. */
export function continueAnswered(earlier: unknown): void {
  for (const { id, answer } of soundAnswered(earlier)) noteAnswered(id, answer)
}

/** The newest requests, as many as the next execution gets, oldest first. */
export const answeredRequests = (): AnsweredRequest[] => newestAnswered([...answered.values()])
