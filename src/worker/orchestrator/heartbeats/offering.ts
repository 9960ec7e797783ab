// Sends the answer of an attempt until the server has it, however long the server cannot be reached.
import { setTimeout as sleep } from 'node:timers/promises'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import { steadyNow } from '../../steady-clock.ts'

/** How long an answer that a server refuses is retried: a codec's key service may be unavailable. */
const OFFER_MS = 120_000
const RETRY_MS = 250
const PROBE_MS = 3_000

/**
 * Sends an answer until the server has it or has given up on the attempt. Returns which of the two happened. Rejects if a server that can
 * be reached does not take it. While no server can be reached, it keeps trying: only this process has the result of an effect.
 */
export async function offer(client: Client, send: () => Promise<void>): Promise<'taken' | 'given_up'> {
  for (let until = steadyNow() + OFFER_MS; ; ) {
    try {
      await send()
      return 'taken'
    } catch (error) {
      if (error instanceof ActivityNotFoundError) return 'given_up'
      if (steadyNow() + RETRY_MS >= until) {
        if (await isReached(client)) throw error
        until = steadyNow() + OFFER_MS
      }
      await sleep(RETRY_MS)
    }
  }
}

async function isReached(client: Client): Promise<boolean> {
  return client
    .withDeadline(Date.now() + PROBE_MS, () => client.workflowService.getSystemInfo({}))
    .then(
      () => true,
      () => false,
    )
}
