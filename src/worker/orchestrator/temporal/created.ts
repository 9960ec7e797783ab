// Creates a Temporal worker, which asks the server for its namespace first, and only once.
import { setTimeout as sleep } from 'node:timers/promises'
import { TransportError } from '@temporalio/worker'

/** A server that starts or is busy is unavailable for moments. */
const TRIES = 10
const BETWEEN_TRIES_MS = 300

/** The worker that `create` makes. Repeats it while the server is unavailable, for some seconds. */
export async function created<W>(create: () => Promise<W>, betweenMs = BETWEEN_TRIES_MS): Promise<W> {
  for (let left = TRIES - 1; ; left--) {
    try {
      return await create()
    } catch (error) {
      if (left === 0 || !(error instanceof TransportError) || !error.message.includes('code: Unavailable')) throw error
      await sleep(betweenMs)
    }
  }
}
