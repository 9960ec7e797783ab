// A run as a backend holds it: by the message that belongs to it.
import type { SessionEvent } from '../session/events.ts'
import { MessageRejected, ResultTimeout, RunFailed, RunInterrupted } from './errors.ts'
import { watchRun } from './run-watch.ts'
import { type EventSource, followBatches } from './session-events.ts'
import type { RunHandle, RunResult, RunSettled } from './types.ts'

/** The handle of `messageId`'s run. */
export function runHandle(source: EventSource, messageId: string): RunHandle {
  const { sessionId, store } = source

  /** Where the message's events begin: before its own event, or, while it is not stored, at what is stored now. */
  async function begin(): Promise<number> {
    try {
      return (await store?.locateMessage(sessionId, messageId)) ?? 0
    } catch {
      return 0
    }
  }

  async function* events(options: { signal?: AbortSignal } = {}): AsyncGenerator<SessionEvent> {
    const watch = watchRun(messageId)
    const signal = options.signal ?? new AbortController().signal
    for await (const batch of followBatches(source, await begin(), signal)) {
      const end = watch.take(batch)
      yield* end ? batch.slice(0, end.at + 1) : batch
      if (end) return
    }
  }

  async function settled(options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<RunSettled> {
    const { timeoutMs } = options
    const stop = new AbortController()
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop.abort(new ResultTimeout(timeoutMs)), timeoutMs)
    const signal = options.signal ? AbortSignal.any([stop.signal, options.signal]) : stop.signal
    try {
      const watch = watchRun(messageId)
      for await (const batch of followBatches(source, await begin(), signal)) {
        const end = watch.take(batch)
        if (end) return end.settled
      }
      throw signal.reason
    } finally {
      clearTimeout(timer)
    }
  }

  async function result(options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<RunResult> {
    const end = await settled(options)
    switch (end.status) {
      case 'completed': {
        const { status: _, ...done } = end
        return done
      }
      case 'interrupted':
        throw new RunInterrupted(end.run, end.reason)
      case 'failed':
        throw new RunFailed(end)
      case 'rejected':
        throw new MessageRejected(end.code, `The session refused the message: ${end.reason}`)
    }
  }

  return { sessionId, messageId, result, settled, events }
}
