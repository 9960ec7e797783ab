// Brings events to the side store, off the critical path: one flush a session at a time in a process, nudges coalesced.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import type { Watermark } from '../session/events.ts'
import { StoreError } from '../store/errors.ts'
import type { LateFlush, Store } from '../store/store.ts'
import type { ReadTarget, SessionReader } from './session-reader.ts'
import { watchLoop } from './standstill.ts'

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

/** A body that blocks the event loop for so long lets any time limit pass: that Postgres did not answer within it says nothing. */
const STANDSTILL_MS = 1_000

/** Sessions whose heads, or whose failures, are kept. */
const SESSIONS_KEPT = 10_000

/** What the store lacks begins after its head; but what lies before the session's origin can be read nowhere. */
function startOf(head: Watermark | undefined, origin: Watermark | undefined): Watermark {
  if (head && head.seq >= (origin?.seq ?? 0)) return head
  return origin ?? { seq: 0, digest: '' }
}

/** A flusher over the store. */
export function startFlusher(store: Store, reader: SessionReader, logger: Logger): Flusher {
  const busy = new Map<string, { next: { target: ReadTarget; client: Client } | undefined; done: Promise<void> }>()
  const heads = new Map<string, Watermark & { epoch: string }>()
  const failing = new Map<string, LateFlush>()
  let unreachable = false

  async function flush(target: ReadTarget, client: Client): Promise<number> {
    for (;;) {
      const loop = watchLoop()
      try {
        return await flushOnce(target, client)
      } catch (error) {
        const { sessionId } = target
        heads.delete(sessionId)
        if (!(error instanceof StoreError)) throw error
        if (loop.stoodStillMs() >= STANDSTILL_MS) continue
        noteFailure(sessionId, error)
        throw error
      } finally {
        loop.stop()
      }
    }
  }

  async function flushOnce(target: ReadTarget, client: Client): Promise<number> {
    const { sessionId, epoch, watermark, origin } = target
    const head = heads.get(sessionId) ?? (await store.head(sessionId)) ?? undefined
    if (head?.epoch === epoch && head.seq >= watermark.seq) return head.seq
    // Another epoch's events go on from the stored head; what the store thinks of that is its own to say.
    const entries = await reader.entries(target, startOf(head, origin), client)
    const late = failing.get(sessionId)
    const flushed = await store.flush(sessionId, epoch, entries, late ? { late } : {})
    failing.delete(sessionId)
    heads.set(sessionId, flushed)
    if (heads.size > SESSIONS_KEPT) heads.clear()
    return flushed.seq
  }

  function noteFailure(sessionId: string, { code, message }: StoreError): void {
    const { since = new Date(), attempts = 0 } = failing.get(sessionId) ?? {}
    if (failing.size > SESSIONS_KEPT) failing.clear()
    failing.set(sessionId, { since, code, message, attempts: attempts + 1 })
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
