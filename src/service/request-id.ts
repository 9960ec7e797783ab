// The header with which clients repeat a request whose answer was lost.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { callerOf } from './access.ts'
import { ServiceError } from './errors.ts'
import type { RouteCall } from './route.ts'

const MAX_KEY = 200

/** The header, for the description of the interface. */
export const REPEATABLE = {
  'Idempotency-Key': z
    .string()
    .min(1)
    .max(MAX_KEY)
    .optional()
    .describe(
      'Identifies the request: the session carries out each key of a caller once, however often a client repeats the request, and answers alike. It remembers the newest 50 while its workflow is open.',
    ),
}

/** The id of the request for the session. Keys of other callers and paths are others. @throws ServiceError `invalid_input`. */
export function requestIdOf({ access, request }: Pick<RouteCall<unknown, unknown, unknown>, 'access' | 'request'>): { requestId?: string } {
  const key = request.headers.get('idempotency-key')
  if (key === null) return {}
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
