// Stopping the run that is going on: by an interrupt, or by its deadline.
import { CancellationScope } from '@temporalio/workflow'
import { hintStop } from './journal.ts'

/** Why a run is being stopped. */
export type Stop = { why: 'interrupt'; reason?: string; by?: string } | { why: 'deadline'; limitMs: number }

/** Runs the steps of a run so that they can be stopped. */
export interface Stopping {
  /** Whether a step is going on. */
  isActive(): boolean
  /** Whether a stop was asked for that no step has answered yet. */
  isRequested(): boolean
  /** Stops the step that is going on, or the next one before it begins. */
  request(stop: Stop): void
  /** Carries out one step; says why it was stopped, if it was. */
  step(body: () => Promise<void>): Promise<Stop | undefined>
  /** The run has ended: what was to stop it must not stop the next one. */
  ended(): void
}

/** The stopping of one execution's runs. */
export function startStopping(): Stopping {
  let stop: Stop | undefined
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
    request,
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
      stop = undefined
    },
  }
}
