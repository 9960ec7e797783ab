// Large requests to a session are sent one after another: a workflow task answers all that have arrived in one message, which includes the
// requests, and the server accepts at most 4 MB.
import type { Client } from '@temporalio/client'
import { jsonBytes } from '../../session/json.ts'
import { takeTurns, type Turns } from '../../waiting/in-turn.ts'

/** The server allows ten requests in flight to a session: ten of this size fit. */
const LARGE_BYTES = 250_000

const turnsOf = new WeakMap<Client, Turns>()

/** Makes the request at once or, if it is large, after this process's earlier large requests to the session have ended. */
export async function inTurn<R>(client: Client, sessionId: string, request: unknown, make: () => Promise<R>): Promise<R> {
  if (jsonBytes(request) <= LARGE_BYTES) return make()
  const inTheirTurn = turnsOf.get(client) ?? takeTurns()
  turnsOf.set(client, inTheirTurn)
  return inTheirTurn(sessionId, make)
}
