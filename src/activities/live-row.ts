// A call that takes long is shown in the ledger while it runs: who runs it, and how far it is. Best effort: nothing depends on it.
import { Context } from '@temporalio/activity'
import type { Json } from '../session/json.ts'
import type { Attempt } from './attempt.ts'
import type { ExecuteToolInput } from './contract.ts'
import type { Flusher } from './flusher.ts'
import type { ActivityNeeds } from './needs.ts'

/** Most calls are over before anyone could look. */
const SHOW_AFTER_MS = 200
/** How often what a body says of its progress is written, at most. */
const PROGRESS_EVERY_MS = 500
/** A store that could not be written is tried again: a call may take as long as an outage. */
const AGAIN_AFTER_MS = 3_000

/** The row of a call that is going on. */
export interface LiveRow {
  /** The newest that the body said of how far it is. */
  progress(value: Json): void
  stop(): void
}

/** Shows the call from a moment on until it is stopped. */
export function startLiveRow(
  needs: ActivityNeeds,
  flusher: Flusher,
  input: ExecuteToolInput,
  attempt: Pick<Attempt, 'sessionId' | 'executionId' | 'number'>,
  callId: string,
): LiveRow {
  const { client } = Context.current()
  const { sessionId, executionId, number } = attempt
  const { epoch, watermark, origin } = input
  let said: { value: Json } | undefined
  let shown = false
  let stopped = false
  /** Whether a write is going on, or was just now, or is to come. */
  let busy = true
  let timer = setTimeout(() => void write(), SHOW_AFTER_MS)

  async function write(): Promise<void> {
    const progress = said
    said = undefined
    let nextMs = PROGRESS_EVERY_MS
    try {
      await show(progress)
    } catch (err) {
      said ??= progress
      nextMs = AGAIN_AFTER_MS
      needs.logger.debug({ err, sessionId, callId }, 'a running call could not be shown')
    }
    if (!stopped) timer = setTimeout(goOn, nextMs)
  }

  async function show(progress: { value: Json } | undefined): Promise<void> {
    if (!shown) {
      await flusher.flush({ sessionId, executionId, epoch, watermark, ...(origin && { origin }) }, client)
      if (stopped) return
      await needs.store.markRunning(sessionId, callId, number, needs.worker)
      shown = true
    }
    if (progress) await needs.store.markProgress(sessionId, callId, number, progress.value)
  }

  function goOn(): void {
    busy = !shown || said !== undefined
    if (busy) void write()
  }

  return {
    progress(value) {
      said = { value }
      if (!busy && !stopped) goOn()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
