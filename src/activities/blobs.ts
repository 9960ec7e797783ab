// Stores and loads values too large for history: which calls wait for the store, and how long.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../agent/tool.ts'
import { ArchiveUnavailable } from '../jobs/errors.ts'
import type { ValueSource, ValueStore } from '../jobs/large-values.ts'
import type { EarlierKeys } from '../jobs/needs.ts'
import { unlessAborted } from '../jobs/unless-aborted.ts'
import type { BlobRef } from '../session/events.ts'
import type { Store } from '../store/store.ts'

/** How long a value that would also fit into history waits for the store, and how long no value waits after a failed wait. */
const QUICK_MS = 2_000
const NO_WAIT_FOR_MS = 10_000
const RETRY_MS = 250
/** How long a model call waits for values before it reports them as unreadable. */
const READ_MS = 3_000

/** Access to the large values in the store, and to the keys of pruned effects. */
export function blobShelf(
  { blobs, completedKey }: Pick<Store, 'blobs' | 'completedKey'>,
  logger: Logger,
): ValueStore & { earlierKey: EarlierKeys } {
  let noWaitUntil = 0

  async function put(sessionId: string, ref: BlobRef, text: Uint8Array, { executionId, waitMs }: ValueSource): Promise<boolean> {
    if (waitMs === undefined && Date.now() < noWaitUntil) return false
    const until = Date.now() + (waitMs ?? QUICK_MS)
    const json = Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString('utf8')
    for (;;) {
      try {
        const signal = AbortSignal.timeout(Math.max(0, until - Date.now()))
        await unlessAborted(signal, blobs.put(sessionId, { ref, json }, executionId))
        return true
      } catch (err) {
        const isOver = waitMs === undefined || Date.now() + RETRY_MS >= until
        if (isOver) {
          logger.warn({ err, session: sessionId, bytes: ref.bytes }, 'a large value could not be stored in the side store')
          noWaitUntil = Date.now() + NO_WAIT_FOR_MS
          return false
        }
        await sleep(RETRY_MS)
      }
    }
  }

  return {
    put,
    get: (sessionId, refs) => patiently(() => blobs.get(sessionId, refs)),
    earlierKey: async (sessionId, key) => (await patiently(() => completedKey(sessionId, key))) ?? undefined,
  }
}

/** @throws ArchiveUnavailable. */
async function patiently<T>(read: () => Promise<T>): Promise<T> {
  for (const giveUpAt = Date.now() + READ_MS; ; ) {
    try {
      return await read()
    } catch (cause) {
      if (Date.now() + RETRY_MS >= giveUpAt) throw new ArchiveUnavailable({ cause })
      await sleep(RETRY_MS)
    }
  }
}
