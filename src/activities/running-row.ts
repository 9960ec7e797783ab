// Shows a long call in `tool_calls` while it runs: its worker and its progress. Best effort: nothing depends on it.
import { nameOfSubject, type JobOrder } from '../calls/jobs.ts'
import { readTarget } from '../calls/reads.ts'
import type { Json } from '../session/json.ts'
import type { ActivityNeeds } from './needs.ts'
import type { Flusher } from './flusher.ts'

/** Shorter calls are not shown. */
const SHOW_AFTER_MS = 200
/** Minimum time between writes of reported progress. */
const PROGRESS_EVERY_MS = 500
/** The wait before a failed write is retried: a call may outlast an outage. */
const AGAIN_AFTER_MS = 3_000

export interface RunningRow {
  /** The newest progress that the body reported. */
  progress(value: Json): void
  stop(): void
}

/** Shows the call that `worker` runs: after a short delay, and until the row is stopped. */
export function startRunningRow(
  { store, client, flusher, logger }: Pick<ActivityNeeds, 'store' | 'client' | 'logger'> & { flusher: Flusher },
  { input, ticket, attempt }: JobOrder<'executeTool'>,
  worker: string,
): RunningRow {
  const { sessionId } = ticket
  const callId = nameOfSubject(ticket.subject)
  const { number } = attempt
  let reported: { value: Json } | undefined
  let shown = false
  let stopped = false
  /** Whether a write is in progress, was made just now, or is scheduled. */
  let busy = true
  let timer = setTimeout(() => void write(), SHOW_AFTER_MS)

  async function write(): Promise<void> {
    const progress = reported
    reported = undefined
    let nextMs = PROGRESS_EVERY_MS
    try {
      await show(progress)
    } catch (err) {
      reported ??= progress
      nextMs = AGAIN_AFTER_MS
      logger.debug({ err, session: sessionId, call: callId }, 'a running call could not be shown')
    }
    if (!stopped) timer = setTimeout(next, nextMs)
  }

  async function show(progress: { value: Json } | undefined): Promise<void> {
    if (!shown) {
      await flusher.flush(readTarget(ticket, input), client)
      if (stopped) return
      await store.markRunning(sessionId, callId, number, worker)
      shown = true
    }
    if (progress) await store.markProgress(sessionId, callId, number, progress.value)
  }

  function next(): void {
    busy = !shown || reported !== undefined
    if (busy) void write()
  }

  return {
    progress(value) {
      reported = { value }
      if (!busy && !stopped) next()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
