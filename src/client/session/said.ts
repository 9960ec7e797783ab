// Who asks for something, and why, checked before it is sent: the session would cut what is too long.
import { textProblem } from '../../session/texts.ts'
import { RequestRefused } from '../errors.ts'

/** The request itself. @throws RequestRefused `invalid_request` for a `by`, `reason` or `note` that is too long. */
export function checkSaid<R extends { by?: unknown; reason?: unknown; note?: unknown }>(request: R): R {
  for (const kind of ['by', 'reason', 'note'] as const) {
    const problem = textProblem(request[kind], kind)
    if (problem !== undefined) throw new RequestRefused('invalid_request', problem)
  }
  return request
}
