// The handle of a run, identified by a message that belongs to it.
import { setTimeout as sleep } from 'node:timers/promises'
import { WorkflowNotFoundError } from '@temporalio/client'
import type { SessionEvent } from '../../session/events.ts'
import { queryState } from '../../connect/session-queries.ts'
import { isGone, untilGone } from './gone.ts'
import { whyHeldUp } from './hold-ups.ts'
import { MessageRejectedError, ResultTimeoutError, RunFailedError, RunInterruptedError } from '../errors.ts'
import { inTime } from '../../waiting/in-time.ts'
import { type RunEnd, type RunWatch, type SettledAt, TAKING_BACK, watchRun } from './run-outcome.ts'
import { readStored, type SessionSource, STORE_PATIENCE_MS, workflowEvents } from './events.ts'
import { followBatches, watchBatches } from './follow.ts'
import type { RunHandle, RunResult, WaitOptions } from '../types.ts'
import type { Store, NotificationKind } from '../../store/store.ts'
import { eventsOf, pagesOf, type ReadPage } from './past.ts'
import { defined } from '../../session/defined.ts'
import { checkFollowing, checkWait } from './options.ts'
import type { WaitingRun } from './waiting.ts'

const QUERY_TIMEOUT_MS = 5_000
/** How long before a wait times out it begins to find out why: Temporal usually answers within milliseconds, a busy one within seconds. */
const WHY_BEFORE_MS = 2_000
/** How long it may take once the wait has timed out. */
const WHY_MS = 500
const leadOf = (timeoutMs: number): number => Math.min(WHY_BEFORE_MS, timeoutMs / 2)
/** How often a workflow is asked again that no worker has answered for. */
const RETRY_MS = 1_000
/** Bytes of JSON that are read at a time. */
const PAGE_BYTES = 500_000

/** Where to look for a message's run. */
export interface RunPlace {
  /** The message was sent through this handle, so an archived or refused message with its id may be an earlier one. */
  isSent?: true
  /** The `seq` of the event after which the message is answered again. */
  after?: number
}

/** The handle of `messageId`'s run. */
export function runHandle(source: SessionSource, messageId: string, { isSent, after }: RunPlace = {}): RunHandle {
  const { sessionId, store } = source

  /** The `seq` after which the message's events begin: before its own event or, while that is not stored, the newest stored event. */
  let begun = after
  async function begin(signal?: AbortSignal): Promise<number> {
    // Looked up only once: a rollback takes the message out of the transcript.
    begun ??= await locate(signal)
    return begun
  }

  async function locate(signal: AbortSignal | undefined): Promise<number> {
    const located = store?.locateMessage(sessionId, messageId).catch(() => undefined)
    const place = located && (await inTime(located, STORE_PATIENCE_MS))
    if (!place) return 0
    const { after, archived, refusedBefore } = place
    if (refusedBefore !== undefined) return (await wasSentAgain(refusedBefore, signal)) ? refusedBefore : after
    if (archived === undefined) return after
    // The one that was archived may be the one that was sent, or an earlier one with its id.
    return isSent && (await wasSentAgain(after, signal)) ? after : archived
  }

  /**
   * Whether the message, of which the first `stored` events have a refusal or an archived message with its id, has a later event. The
   * workflow answers after it has handled everything that was sent before. The handle of a message that was sent waits for that answer.
   */
  async function wasSentAgain(stored: number, signal: AbortSignal | undefined): Promise<boolean> {
    for (;;) {
      source.closed.throwIfAborted()
      try {
        for await (const event of eventsOf((after) => workflowEvents(source, after, PAGE_BYTES), stored)) {
          if (isOfMessage(event, messageId)) return true
        }
        return false
      } catch (error) {
        if (!isSent || error instanceof WorkflowNotFoundError) return false
        await sleep(RETRY_MS, undefined, defined({ signal }))
      }
    }
  }

  /** Follows until `signal` aborts or the events turn out to be gone: they then end here. */
  async function* whileThere<T>(signal: AbortSignal | undefined, follow: (signal: AbortSignal) => AsyncIterable<T>): AsyncGenerator<T> {
    const stop = new AbortController()
    const either = signal ? AbortSignal.any([stop.signal, signal]) : stop.signal
    let isGone = false
    untilGone(source, { messageId, isSent }, either).then(
      () => {
        isGone = true
        stop.abort()
      },
      () => undefined,
    )
    try {
      yield* follow(either)
    } catch (error) {
      if (!isGone || signal?.aborted) throw error
    } finally {
      stop.abort()
    }
  }

  async function* events(options?: { signal?: AbortSignal }): AsyncGenerator<SessionEvent> {
    const { signal } = checkFollowing(options)
    const watch = watchRun(messageId)
    const from = await begin(signal)
    for await (const batch of whileThere(signal, (either) => followBatches(source, from, either))) {
      const end = await final(watch, batch)
      yield* end ? batch.filter(({ seq }) => seq <= end.seq) : batch
      if (end) return
    }
  }

  async function* stream(options?: { signal?: AbortSignal }): ReturnType<RunHandle['stream']> {
    const { signal } = checkFollowing(options)
    const watch = watchRun(messageId)
    const from = await begin(signal)
    for await (const batch of whileThere(signal, (either) => watchBatches(source, from, either))) {
      const end = await final(
        watch,
        batch.flatMap((item) => (item.type === 'event' ? [item.event] : [])),
      )
      for (const item of batch) {
        if (item.type === 'status') continue
        if (item.type === 'event' || item.run === watch.run()) yield item
        if (item.type === 'event' && item.event.seq === end?.seq) return
      }
    }
  }

  /** How the run ends, or the first result of `look`, which is called after each batch of events with the `seq` of its last one. */
  async function settle<T>(
    options: WaitOptions | undefined,
    look: (watch: RunWatch, seq: number) => Promise<T | undefined>,
    which?: NotificationKind,
  ): Promise<RunEnd | T> {
    const { timeoutMs, signal: stopped } = checkWait(options)
    const watch = watchRun(messageId)
    const stop = new AbortController()
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => void giveUp(timeoutMs), timeoutMs - leadOf(timeoutMs))
    async function giveUp(afterMs: number): Promise<void> {
      const why = whyHeldUp(source).catch(() => undefined)
      const hasEnded = await sleep(leadOf(afterMs), false, { signal: stop.signal }).catch(() => true)
      if (hasEnded) return
      const heldUp = await inTime(why, WHY_MS)
      stop.abort(new ResultTimeoutError(afterMs, watch.progress(heldUp)))
    }
    const signal = stopped ? AbortSignal.any([stop.signal, stopped]) : stop.signal
    async function follow(): Promise<RunEnd | T> {
      for await (const batch of followBatches(source, await begin(signal), signal, which)) {
        const end = await final(watch, batch)
        if (end) return end.settled
        const now = await look(watch, batch.at(-1)?.seq ?? 0)
        if (now) return now
      }
      throw signal.reason
    }
    try {
      // A query to a hanging server may take longer than the caller wants to wait.
      return await Promise.race([follow(), untilGone(source, { messageId, isSent }, signal), aborted(signal)])
    } finally {
      clearTimeout(timer)
      stop.abort()
    }
  }

  /** How the run has settled, by all events that are known now: later ones than those of `batch` may take back what it says. */
  async function final(watch: RunWatch, batch: readonly SessionEvent[]): Promise<SettledAt | undefined> {
    const end = watch.take(batch)
    const last = batch.at(-1)
    if (!end || !last) return end
    return (await isTakenBack(watch, end.settled, last.seq)) ? undefined : end
  }

  /** Whether an event after `seq` takes back how the run has settled. */
  async function isTakenBack(watch: RunWatch, { status }: RunEnd, seq: number): Promise<boolean> {
    const isIn = async (read: ReadPage): Promise<boolean> => {
      for await (const page of pagesOf(read, seq)) if (watch.isTakenBackBy(page)) return true
      return false
    }
    const stored = await inStore((from) => isIn((after) => from.events(sessionId, { after, types: TAKING_BACK })))
    // The store may lack a recovery that a person has just started.
    if (stored === true || (stored === false && status !== 'failed')) return stored
    // Without a workflow, or a worker to query, no recovery has been accepted since.
    return isIn((after) => workflowEvents(source, after, PAGE_BYTES)).catch(() => false)
  }

  /** What the store says; undefined if there is none, or if it does not answer soon. */
  async function inStore<T>(read: (from: Store) => Promise<T>): Promise<T | undefined> {
    return (await inTime(readStored(source, read), STORE_PATIENCE_MS))?.rows
  }

  /**
   * Whether the run waits for a person or a client, by the events up to `seq`. The store may lack a decision or an answer that just arrived;
   * the workflow has it.
   */
  async function stillWaiting(watch: RunWatch, seq: number): Promise<WaitingRun | undefined> {
    const waiting = watch.waiting()
    if (!waiting) return undefined
    const { client } = source
    try {
      const state = await queryState(client, sessionId, QUERY_TIMEOUT_MS)
      if ('v' in state) return watch.waiting(state)
    } catch {
      // There is no workflow, or no worker to query, so no decision or answer has been accepted since.
    }
    // Events that are stored and not read yet may say what became of it.
    const next = await inStore((from) => from.events(sessionId, { after: seq, limit: 1 }))
    return next?.length ? undefined : waiting
  }

  const settled: RunHandle['settled'] = (options) => settle(options, stillWaiting)

  async function result(options?: WaitOptions): Promise<RunResult> {
    const end = await settle<never>(options, async () => undefined, 'news')
    switch (end.status) {
      case 'completed': {
        const { status: _, ...done } = end
        return done
      }
      case 'interrupted':
        throw new RunInterruptedError(end.run, end.reason)
      case 'failed':
        throw new RunFailedError(end)
      case 'rejected':
        throw new MessageRejectedError(end.code, isGone(end.code) ? end.reason : `The session refused the message: ${end.reason}`)
    }
  }

  const handle: RunHandle = { sessionId, messageId, result, settled, events, stream }
  if (after !== undefined) regenerated.set(handle, after)
  return handle
}

const regenerated = new WeakMap<RunHandle, number>()

/** Of a run that answers a message again: the `seq` of the event that took the session back. */
export const regeneratedAt = (run: RunHandle): number | undefined => regenerated.get(run)

function isOfMessage(event: SessionEvent, messageId: string): boolean {
  return (event.type === 'message_received' || event.type === 'message_rejected') && event.messageId === messageId
}

/** Rejects with the signal's reason when it aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
