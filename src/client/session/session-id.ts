// Checks the ids of sessions that callers pass.
import { isSessionId } from '../../session/protocol/protocol.ts'
import { sha256Of } from '../../store/blobs.ts'
import { InvalidMessageError } from '../errors.ts'

/** An id of the form of a UUID: the same for the same text. */
export function uuidOf(text: string): string {
  const digest = sha256Of(text)
  return [8, 12, 16, 20, 32].map((end, n, ends) => digest.slice(n === 0 ? 0 : ends[n - 1], end)).join('-')
}

/** Returns the id unchanged. @throws InvalidMessageError `invalid_session_id`. */
export function checkSessionId(id: unknown): string {
  if (isSessionId(id)) return id
  throw new InvalidMessageError('invalid_session_id', `${JSON.stringify(id)} is not a valid session id. Use 1 to 200 of [A-Za-z0-9._:/@-].`)
}
