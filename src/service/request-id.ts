// The header with which clients repeat a request whose answer was lost.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { callerOf } from './access.ts'
import { ServiceError } from './errors.ts'
import type { RouteCall } from './route.ts'

const MAX_KEY = 200

/** What identifies a request. */
export const KEY = z.string().min(1).max(MAX_KEY)

/** The header, for the description of the interface. */
export const REPEATABLE = {
  'Idempotency-Key': KEY.optional().describe(
    'Identifies the request: the session carries out each key of a caller once, however often a client repeats the request, and answers alike. The key with another body is refused with 422, except to interrupt or close. The session remembers the newest 50, also once it was closed, for as long as Temporal keeps its last history.',
  ),
}

/**
 * The id of the request for the session. Keys of other callers and paths are others. `given`: the key of a request without the header.
 * @throws ServiceError `invalid_input`.
 */
export function requestIdOf(
  { access, request }: Pick<RouteCall<unknown, unknown, unknown>, 'access' | 'request'>,
  given?: string,
): { requestId?: string } {
  const key = request.headers.get('idempotency-key') ?? given
  if (key === undefined) return {}
  if (key === '' || key.length > MAX_KEY) {
    const detail = `must have 1 to ${MAX_KEY} characters`
    throw new ServiceError('invalid_input', 400, `Idempotency-Key ${detail}.`, { parts: [{ at: 'header.Idempotency-Key', detail }] })
  }
  const { pathname } = new URL(request.url)
  return {
    requestId: createHash('sha256')
      .update(`${callerOf(access)}\n${pathname}\n${key}`)
      .digest('hex'),
  }
}
