// Waits for a condition, with a time limit.
import { setTimeout as sleep } from 'node:timers/promises'

const EVERY_MS = 20

/** Resolves when `look` returns true; an error that it throws counts as false. Rejects after `ms`. */
export async function until(look: () => boolean | Promise<boolean>, ms: number): Promise<void> {
  const giveUpAt = Date.now() + ms
  let last: unknown
  for (;;) {
    try {
      if (await look()) return
      last = undefined
    } catch (error) {
      last = error
    }
    if (Date.now() > giveUpAt) throw new Error(`Timed out after ${ms} ms waiting for a condition.`, { cause: last })
    await sleep(EVERY_MS)
  }
}
