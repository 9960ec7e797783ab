// Large requests to a session go one after another: a workflow task answers all that have come in one message, with the requests in it, and
// the server takes no more than 4 MB.
import type { Client } from '@temporalio/client'
import { jsonBytes } from '../../session/json.ts'

/** Ten requests may be under way to a session, which is the server's limit: as many of these fit. */
const LARGE_BYTES = 250_000

const underWay = new WeakMap<Client, Map<string, Promise<unknown>>>()

/** Makes the request at once, or, if it is large, once those that this process has made of the session before are over. */
export async function inTurn<R>(client: Client, sessionId: string, request: unknown, make: () => Promise<R>): Promise<R> {
  if (jsonBytes(request) <= LARGE_BYTES) return make()
  const turns = underWay.get(client) ?? new Map<string, Promise<unknown>>()
  underWay.set(client, turns)
  const before = turns.get(sessionId)
  const mine = (async () => {
    await before?.catch(() => undefined)
    return make()
  })()
  turns.set(sessionId, mine)
  try {
    return await mine
  } finally {
    if (turns.get(sessionId) === mine) turns.delete(sessionId)
  }
}
