// A call that takes long is shown in the ledger while it runs: who runs it, and its progress. Best effort: nothing depends on it.
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import type { JobOrder } from '../jobs/contract.ts'
import type { Json } from '../session/json.ts'
import type { Store } from '../store/store.ts'
import type { Flusher } from './flusher.ts'

/** Most calls are over before anyone could look. */
const SHOW_AFTER_MS = 200
/** How often reported progress is written, at most. */
const PROGRESS_EVERY_MS = 500
/** A store that could not be written is tried again: a call may take as long as an outage. */
const AGAIN_AFTER_MS = 3_000

/** The row of a running call. */
export interface LiveRow {
  /** The newest progress that the body reported. */
  progress(value: Json): void
  stop(): void
}

/** What rows are written with. */
export interface LiveRowNeeds {
  store: Store
  client: Client
  flusher: Flusher
  logger: Logger
}

/** Shows the call, which `worker` runs, from a moment on until it is stopped. */
export function startLiveRow(
  { store, client, flusher, logger }: LiveRowNeeds,
  { input, ticket, attempt }: JobOrder<'executeTool'>,
  worker: string,
): LiveRow {
  const { sessionId, executionId, call: callId } = ticket
  const { number } = attempt
  const { epoch, watermark, origin } = input
  let said: { value: Json } | undefined
  let shown = false
  let stopped = false
  /** Whether a write is running, or was just now, or is to come. */
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
      logger.debug({ err, sessionId, callId }, 'a running call could not be shown')
    }
    if (!stopped) timer = setTimeout(next, nextMs)
  }

  async function show(progress: { value: Json } | undefined): Promise<void> {
    if (!shown) {
      await flusher.flush({ sessionId, executionId, epoch, watermark, ...(origin && { origin }) }, client)
      if (stopped) return
      await store.markRunning(sessionId, callId, number, worker)
      shown = true
    }
    if (progress) await store.markProgress(sessionId, callId, number, progress.value)
  }

  function next(): void {
    busy = !shown || said !== undefined
    if (busy) void write()
  }

  return {
    progress(value) {
      said = { value }
      if (!busy && !stopped) next()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
