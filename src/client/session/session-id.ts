// Checks the ids of sessions that callers pass.
import { isSessionId } from '../../session/protocol/protocol.ts'
import { InvalidMessageError } from '../errors.ts'

/** Returns the id unchanged. @throws InvalidMessageError `invalid_session_id`. */
export function checkSessionId(id: unknown): string {
  if (isSessionId(id)) return id
  throw new InvalidMessageError('invalid_session_id', `${JSON.stringify(id)} is not a valid session id. Use 1 to 200 of [A-Za-z0-9._:/@-].`)
}
