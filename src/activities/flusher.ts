// Flushes events to the side store, off the critical path: one flush per session at a time in a process, with coalesced nudges.
import type { ReadTarget } from '../calls/reads.ts'
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import { isOfOneSession, StoreError } from '../store/errors.ts'
import type { LateFlush, Store } from '../store/store.ts'
import type { SessionReader } from './session-reader.ts'

export interface Flusher {
  /** Flushes up to the target's watermark soon; failures are logged, and the next nudge covers them. */
  nudge(target: ReadTarget, client: Client): void
  /** Flushes up to the target's watermark, or as far as possible within the time; returns how far the session is stored. */
  flush(target: ReadTarget, client: Client, withinMs?: number): Promise<number>
  /** Resolves when no nudged flush is in progress. */
  idle(): Promise<void>
}

/** Minimum time between nudged flushes of a session: the store may lag by this much. */
const BETWEEN_FLUSHES_MS = 50

/** The flush of a slower turn starts at once, because it would rarely share a transaction with other turns. */
const SLOW_TURN_MS = 25

/** If user code blocks the event loop for this long, an expired time limit does not mean that Postgres is unavailable. */
const FROZEN_MS = 1_000

/** For how many sessions the head and the newest failure are kept. */
const SESSIONS_KEPT = 10_000

const NOTHING: Watermark = { seq: 0, digest: '' }

/** The missing events begin after the store's head, but not before the session's origin: earlier events cannot be read. */
function startOf(head: Watermark | undefined, origin: Watermark | undefined): Watermark {
  if (head && head.seq >= (origin?.seq ?? 0)) return head
  return origin ?? NOTHING
}

/** The watermark up to which to flush a session. */
interface Nudge {
  target: ReadTarget
  client: Client
}

interface SessionFlush {
  next: Nudge | undefined
  nudgedAt: number
  /** Ends the wait for the next flush. */
  hurry(): void
  done: Promise<void>
}

/** A wait that can be ended early. */
function waitFor(ms: number): { over: Promise<void>; end(): void } {
  let end = () => {}
  const over = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms)
    end = () => {
      clearTimeout(timer)
      resolve()
    }
  })
  return { over, end: () => end() }
}

/** `onStored` receives what the flusher has stored. */
export function startFlusher(
  store: Store,
  reader: SessionReader,
  logger: Logger,
  onStored?: (target: ReadTarget, entries: readonly LogEntry[]) => void,
): Flusher {
  const busy = new Map<string, SessionFlush>()
  const heads = new Map<string, Watermark & { epoch: string }>()
  const failures = noteFailures(logger)

  async function flush(target: ReadTarget, client: Client, withinMs = Number.POSITIVE_INFINITY): Promise<number> {
    const until = performance.now() + withinMs
    for (;;) {
      const loop = watchLoop()
      try {
        return await flushParts(target, client, until)
      } catch (error) {
        const { sessionId } = target
        heads.delete(sessionId)
        if (!(error instanceof StoreError)) throw error
        if (loop.blockedMs() >= FROZEN_MS) continue
        failures.note(sessionId, error)
        throw error
      } finally {
        loop.stop()
      }
    }
  }

  /** Each part is committed, so a backlog shrinks even if its flush is often cut off. */
  async function flushParts(target: ReadTarget, client: Client, until: number): Promise<number> {
    const { sessionId, epoch, executionId, watermark, origin } = target
    const head = heads.get(sessionId) ?? (await store.head(sessionId)) ?? undefined
    if (head && target.isNew && head.epoch !== epoch && !(await beginsAs(target, client))) return setAside(target, client)
    if (head && head.seq >= watermark.seq && (head.epoch === epoch || (await holds(sessionId, watermark)))) return head.seq
    let stored = head?.seq ?? 0
    const late = failures.of(sessionId)
    // Events of another epoch may continue from the stored head. The store decides whether to accept them.
    for await (const entries of reader.parts(target, startOf(head, origin), client)) {
      const flushed = await store.flush(sessionId, epoch, entries, { executionId, ...(late && { late }) })
      heads.set(sessionId, flushed)
      onStored?.(target, entries)
      if (heads.size > SESSIONS_KEPT) heads.clear()
      stored = flushed.seq
      if (performance.now() >= until) return stored
    }
    failures.over(sessionId)
    return stored
  }

  /**
   * Whether the stored past begins with this session's first event: if so, an execution that was reset has continued it under another
   * epoch.
   */
  async function beginsAs(target: ReadTarget, client: Client): Promise<boolean> {
    for await (const [first] of reader.parts(target, NOTHING, client)) return first !== undefined && holds(target.sessionId, first)
    return true
  }

  /** Hands the store a second past of the session, which it sets aside. @throws StoreError `foreign_epoch`. */
  async function setAside(target: ReadTarget, client: Client): Promise<never> {
    const { sessionId, epoch, executionId } = target
    for await (const entries of reader.parts(target, NOTHING, client)) await store.flush(sessionId, epoch, entries, { executionId })
    throw new StoreError('foreign_epoch', `The store has another past for session ${sessionId}, whose execution chain is not ${epoch}.`)
  }

  /** Whether the store has the event and all earlier ones; later ones may be another execution chain's. */
  async function holds(sessionId: string, { seq, digest }: Watermark): Promise<boolean> {
    const [entry] = await store.entries(sessionId, { after: seq - 1, limit: 1 })
    return entry?.digest === digest
  }

  async function drain(key: string, session: SessionFlush): Promise<void> {
    for (let next = take(session); next; next = take(session)) {
      const pause = waitFor(BETWEEN_FLUSHES_MS)
      session.hurry = pause.end
      try {
        await flush(next.target, next.client)
      } catch (err) {
        if (!(err instanceof StoreError)) logger.debug({ err, session: key }, 'the events could not be read; they are stored later')
      }
      // Faster turns share a transaction.
      await pause.over
    }
    busy.delete(key)
  }

  function take(session: SessionFlush): Nudge | undefined {
    const { next } = session
    session.next = undefined
    return next
  }

  return {
    flush,
    nudge(target, client) {
      const { sessionId: key } = target
      const now = performance.now()
      const session = busy.get(key)
      if (session) {
        session.next = { target, client }
        if (now - session.nudgedAt >= SLOW_TURN_MS) session.hurry()
        session.nudgedAt = now
        return
      }
      const started: SessionFlush = { next: { target, client }, nudgedAt: now, hurry: () => {}, done: Promise.resolve() }
      busy.set(key, started)
      started.done = drain(key, started)
    },
    async idle() {
      await Promise.all([...busy.values()].map((entry) => entry.done))
    },
  }
}

/** The sessions whose flushes failed, and which failures are logged. */
interface FlushFailures {
  of(sessionId: string): LateFlush | undefined
  note(sessionId: string, error: StoreError): void
  /** Call this when the session's flush has succeeded. */
  over(sessionId: string): void
}

function noteFailures(logger: Logger): FlushFailures {
  const failing = new Map<string, LateFlush>()
  /** The newest failure of all sessions, until a flush succeeds. */
  let logged: string | undefined

  function log(sessionId: string, error: StoreError, attempts: number): void {
    const { code } = error
    const fields = { err: error, session: sessionId }
    if (code === 'foreign_epoch' && attempts === 0)
      logger.error(fields, 'a session has two pasts: these events were set aside in stray_events')
    else if (code === 'foreign_namespace') {
      if (logged !== code) logger.error(fields, 'the side store belongs to another namespace: nothing is stored')
    } else if (isOfOneSession(error) ? attempts === 0 : logged !== code)
      logger.warn(fields, 'the side store could not be written; its events are stored later')
  }

  return {
    of: (sessionId) => failing.get(sessionId),
    note(sessionId, error) {
      const { code, message } = error
      const { since = new Date(), attempts = 0 } = failing.get(sessionId) ?? {}
      log(sessionId, error, attempts)
      // An outage is logged once, not once per turn.
      if (!isOfOneSession(error)) logged = code
      if (failing.size > SESSIONS_KEPT) failing.clear()
      failing.set(sessionId, { since, code, message, attempts: attempts + 1 })
    },
    over(sessionId) {
      failing.delete(sessionId)
      logged = undefined
    },
  }
}

const TICK_MS = 250

/** Measures how long this process's event loop is blocked: a time limit that expires meanwhile proves nothing. */
function watchLoop(): { blockedMs(): number; stop(): void } {
  let ticked = performance.now()
  let longest = 0
  const measure = (): number => {
    const now = performance.now()
    longest = Math.max(longest, now - ticked - TICK_MS)
    ticked = now
    return longest
  }
  const timer = setInterval(measure, TICK_MS)
  timer.unref()
  return {
    // The caller may run before the overdue tick, so count the time until now, too.
    blockedMs: measure,
    stop: () => clearInterval(timer),
  }
}
