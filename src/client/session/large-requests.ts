// Large requests to a session go one after another: a workflow task answers all that have arrived in one message, which includes the
// requests, and the server accepts at most 4 MB.
import type { Client } from '@temporalio/client'
import { jsonBytes } from '../../session/json.ts'

/** The server allows ten requests in flight to a session: ten of this size fit. */
const LARGE_BYTES = 250_000

const underWay = new WeakMap<Client, Map<string, Promise<unknown>>>()

/** Makes the request at once or, if it is large, after this process's earlier large requests to the session have ended. */
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
