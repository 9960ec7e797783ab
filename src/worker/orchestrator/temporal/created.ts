// Creates a Temporal worker. The SDK first asks the server for the namespace, and does not retry.
import { setTimeout as sleep } from 'node:timers/promises'
import { TransportError } from '@temporalio/worker'

/** A server that is starting or busy may be unavailable for moments. */
const TRIES = 10
const BETWEEN_TRIES_MS = 300

/** Calls `create`, and repeats it for some seconds while the server is unavailable. */
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
