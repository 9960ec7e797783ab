// Stores and loads values too large for history, and decides which calls wait for the store and for how long.
import { type EarlierKeys, PIECE_BYTES, type ValueSource, type ValueStore } from '../calls/reads.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../agent/tool.ts'
import { ArchiveUnavailable } from '../calls/errors.ts'
import { unlessAborted } from '../waiting/unless-aborted.ts'
import type { BlobRef } from '../session/call-facts.ts'
import type { Store } from '../store/store.ts'

/**
 * A value that would also fit into history waits as long as the store makes progress: it gives up after QUICK_MS in which nothing was
 * stored, and after LONGEST_MS at the latest. On a busy machine, storing many values at once is slow, but a history that holds them all is
 * slower. After a failed wait, no value waits for the next NO_WAIT_FOR_MS.
 */
const QUICK_MS = 5_000
const LONGEST_MS = 20_000
const NO_WAIT_FOR_MS = 10_000
const RETRY_MS = 250
/** How long a model call waits for values before it reports them as unreadable. */
const READ_MS = 3_000

/** Access to the large values in the store, and to the keys of pruned effects. */
export function blobStore(
  { blobs, completedKey }: Pick<Store, 'blobs' | 'completedKey'>,
  logger: Logger,
): ValueStore & { earlierKey: EarlierKeys } {
  let noWaitUntil = 0
  let storedAt = 0

  /** How much longer a value that began to wait at this time may wait. */
  function leftMs(began: number, waitMs: number | undefined): number {
    const end = waitMs === undefined ? Math.min(Math.max(began, storedAt) + QUICK_MS, began + LONGEST_MS) : began + waitMs
    return end - Date.now()
  }

  async function put(sessionId: string, ref: BlobRef, text: Uint8Array, { executionId, waitMs }: ValueSource): Promise<boolean> {
    if (waitMs === undefined && Date.now() < noWaitUntil) return false
    const began = Date.now()
    const left = (): number => leftMs(began, waitMs)
    const json = Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString('utf8')
    for (;;) {
      try {
        await whileTimeIsLeft(left, blobs.put(sessionId, { ref, json }, executionId))
        storedAt = Date.now()
        return true
      } catch (err) {
        const isOver = waitMs === undefined || left() <= RETRY_MS
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
    piece: (sessionId, sha256, from) => patiently(() => blobs.piece(sessionId, sha256, from, PIECE_BYTES)),
    earlierKey: async (sessionId, key) => (await patiently(() => completedKey(sessionId, key))) ?? undefined,
  }
}

/** Settles as `work` does, but rejects if the time runs out first. */
async function whileTimeIsLeft(leftMs: () => number, work: Promise<void>): Promise<void> {
  const over = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const look = (): void => {
    const left = leftMs()
    if (left > 0) timer = setTimeout(lookOnceRead, left)
    else over.abort(new Error('the side store did not answer in time'))
  }
  // Node runs late timers before it reads the sockets, where an answer may already be.
  const lookOnceRead = (): void => void setImmediate(look)
  look()
  try {
    await unlessAborted(over.signal, work)
  } finally {
    clearTimeout(timer)
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
