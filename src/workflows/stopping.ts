// Stops the current run: by an interrupt, or by its deadline.
import { CancellationScope } from '@temporalio/workflow'
import { hintStop } from './journal.ts'
import { onceTrue } from './once-true.ts'

/** Why a run is being stopped. */
export type Stop = { why: 'interrupt'; reason?: string; by?: string } | { why: 'deadline'; reason: string }

export interface Stopping {
  /** Whether a step is in progress. */
  isActive(): boolean
  /** Whether a requested stop has not taken effect yet. */
  isRequested(): boolean
  /** Whether the run will be stopped, now or later. */
  isComing(): boolean
  /** Stops the current step, or the next one before it begins. */
  request(stop: Stop): void
  /** Like `request`, but waits for `isDue`; does nothing if the run ends first. */
  requestOnce(isDue: () => boolean, stop: Stop): void
  /** Runs one step. Returns why it was stopped, or undefined if it was not. */
  step(body: () => Promise<void>): Promise<Stop | undefined>
  /** Discards a pending stop, because the run has ended and its stop must not affect the next run. */
  ended(): void
}

export function startStopping(): Stopping {
  let stop: Stop | undefined
  let postponed: Stop | undefined
  let active: CancellationScope | undefined

  function request(cause: Stop): void {
    stop ??= cause
    if (!active) return
    active.cancel()
    hintStop()
  }

  return {
    isActive: () => active !== undefined,
    isRequested: () => stop !== undefined,
    isComing: () => stop !== undefined || postponed !== undefined,
    request,
    requestOnce(isDue, cause) {
      if (isDue()) return request(cause)
      if (postponed) return
      postponed = cause
      onceTrue(
        () => postponed !== cause || isDue(),
        () => {
          if (postponed !== cause) return
          postponed = undefined
          request(cause)
        },
      )
    },
    async step(body) {
      if (!stop) {
        active = new CancellationScope()
        try {
          await active.run(body)
        } finally {
          active = undefined
        }
      }
      const stopped = stop
      stop = undefined
      return stopped
    },
    ended() {
      stop = postponed = undefined
    },
  }
}
