// Brings events to the side store, off the critical path: one flush a session at a time in a process, nudges coalesced.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import type { Watermark } from '../session/events.ts'
import type { Store } from '../store/store.ts'
import type { ReadTarget, SessionReader } from './session-reader.ts'

/** Flushes sessions. */
export interface Flusher {
  /** Flushes up to the target's watermark soon; failures are logged, the next nudge covers them. */
  nudge(target: ReadTarget, client: Client): void
  /** Flushes up to the target's watermark; gives how far the session is stored then. */
  flush(target: ReadTarget, client: Client): Promise<number>
  /** Resolves when no nudged flush is going on. */
  idle(): Promise<void>
}

/** The least time from one nudged flush of a session to its next: the store may be this much later than it could be. */
const BETWEEN_FLUSHES_MS = 50

/** A flusher over the store. */
export function startFlusher(store: Store, reader: SessionReader, logger: Logger): Flusher {
  const busy = new Map<string, { next: { target: ReadTarget; client: Client } | undefined; done: Promise<void> }>()
  const heads = new Map<string, Watermark & { epoch: string }>()
  let unreachable = false

  async function flush(target: ReadTarget, client: Client): Promise<number> {
    const { sessionId, epoch, watermark } = target
    const head = heads.get(sessionId) ?? (await store.head(sessionId)) ?? undefined
    if (head?.epoch === epoch && head.seq >= watermark.seq) return head.seq
    try {
      // Another epoch's events go on from the stored head; what the store thinks of that is its own to say.
      const entries = await reader.entries(target, head ?? { seq: 0, digest: '' }, client)
      const flushed = await store.flush(sessionId, epoch, entries)
      heads.set(sessionId, flushed)
      if (heads.size > 10_000) heads.clear()
      return flushed.seq
    } catch (error) {
      heads.delete(sessionId)
      throw error
    }
  }

  async function drain(key: string): Promise<void> {
    for (let next = take(key); next; next = take(key)) {
      const pause = sleep(BETWEEN_FLUSHES_MS)
      try {
        await flush(next.target, next.client)
        unreachable = false
      } catch (err) {
        // Said once an outage, not once a turn.
        if (!unreachable) logger.warn({ err, sessionId: next.target.sessionId }, 'the side store could not be written; it will catch up')
        unreachable = true
      }
      // Turns that follow one another faster share a transaction.
      await pause
    }
    busy.delete(key)
  }

  function take(key: string): { target: ReadTarget; client: Client } | undefined {
    const entry = busy.get(key)
    const next = entry?.next
    if (entry) entry.next = undefined
    return next
  }

  return {
    flush,
    nudge(target, client) {
      const { sessionId: key } = target
      const entry = busy.get(key)
      if (entry) {
        entry.next = { target, client }
        return
      }
      const started = { next: { target, client }, done: Promise.resolve() }
      busy.set(key, started)
      started.done = drain(key)
    },
    async idle() {
      await Promise.all([...busy.values()].map((entry) => entry.done))
    },
  }
}
