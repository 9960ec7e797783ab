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
    const { value } = said ?? {}
    said = undefined
    try {
      if (!shown) {
        await flusher.flush({ sessionId, executionId, epoch, watermark, ...(origin && { origin }) }, client)
        await needs.store.markRunning(sessionId, callId, number, needs.worker)
        shown = true
      }
      if (value !== undefined) await needs.store.markProgress(sessionId, callId, number, value)
    } catch (err) {
      needs.logger.debug({ err, sessionId, callId }, 'a running call could not be shown')
    }
    if (!stopped) timer = setTimeout(goOn, PROGRESS_EVERY_MS)
  }

  function goOn(): void {
    busy = said !== undefined
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
