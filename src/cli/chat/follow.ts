// Shows the runs of one session as their events become durable: one run after another, each event once.
import type { RunHandle } from '../../client/types.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { WatchItem } from '../../session/watching/watching.ts'

export type FollowOutcome = 'answered' | 'failed' | 'left'

export interface Follower {
  /** Shows the run's new events, after those of earlier runs; resolves when the run has ended. */
  follow(run: RunHandle): Promise<FollowOutcome>
  /** Whether a run is being shown. */
  busy(): boolean
  /** Stops showing events. */
  stop(): void
}

export interface FollowOptions {
  /** `seq` of the last event already shown. */
  shownUpTo: number
  onEvent(event: SessionEvent): void
  /** The model has streamed more of its answer, or its partial answer was discarded. Default: only complete answers are shown. */
  onLive?(item: Exclude<WatchItem, { type: 'event' | 'status' }>): void
  /** No event has arrived for a while after the message. `isSilent` returns whether that is still true. */
  onSilence(isSilent: () => boolean): void
  onError(error: unknown): void
}

/** Milliseconds without any event before `onSilence`. */
const SILENCE_MS = 5_000

export function followRuns(options: FollowOptions): Follower {
  const leave = new AbortController()
  const { signal } = leave
  let shown = options.shownUpTo
  let pending = 0
  let last: Promise<unknown> = Promise.resolve()

  async function show(run: RunHandle): Promise<FollowOutcome> {
    if (signal.aborted) return 'left'
    let silent = true
    const silence = setTimeout(() => options.onSilence(() => silent && !signal.aborted), SILENCE_MS)
    try {
      for await (const item of run.stream({ signal })) {
        silent = false
        clearTimeout(silence)
        if (item.type !== 'event') {
          options.onLive?.(item)
          continue
        }
        const { event } = item
        // A steering message joins the run that is being shown: its events were already shown.
        if (event.seq <= shown) continue
        shown = event.seq
        options.onEvent(event)
      }
      const { status } = await run.settled({ signal })
      return status === 'completed' || status === 'interrupted' ? 'answered' : 'failed'
    } catch (error) {
      if (signal.aborted) return 'left'
      options.onError(error)
      return 'failed'
    } finally {
      clearTimeout(silence)
    }
  }

  return {
    follow(run) {
      pending += 1
      const followed = last
        .then(() => show(run))
        .finally(() => {
          pending -= 1
        })
      last = followed
      return followed
    },
    busy: () => pending > 0,
    stop: () => leave.abort(),
  }
}
