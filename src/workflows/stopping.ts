// Stopping the run that is going on: by an interrupt, or by its deadline.
import { CancellationScope, sleep } from '@temporalio/workflow'
import type { RunState } from '../session/state.ts'
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
  step(run: RunState, body: () => Promise<void>): Promise<Stop | undefined>
  /** The run has ended: what was to stop it must not stop the next one. */
  ended(): void
}

/** The stopping of one execution's runs. One of core 1 watches their deadlines itself, step by step. */
export function startStopping(coreVersion: number): Stopping {
  let stop: Stop | undefined
  let active: CancellationScope | undefined
  let deadline: { run: number; scope: CancellationScope } | undefined

  function request(cause: Stop): void {
    stop ??= cause
    if (!active) return
    active.cancel()
    hintStop()
  }

  /** One timer a run, also over its turns: each costs events. */
  function watchDeadline({ run, startedAt, limits }: RunState): void {
    if (deadline?.run === run) return
    deadline?.scope.cancel()
    deadline = undefined
    const limitMs = limits?.deadlineMs
    if (limitMs === undefined) return
    const scope = new CancellationScope()
    deadline = { run, scope }
    scope
      .run(() => sleep(Math.max(1, startedAt + limitMs - Date.now())))
      .then(
        () => request({ why: 'deadline', limitMs }),
        () => undefined,
      )
  }

  return {
    isActive: () => active !== undefined,
    isRequested: () => stop !== undefined,
    request,
    async step(run, body) {
      if (coreVersion < 2) watchDeadline(run)
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
      deadline?.scope.cancel()
      deadline = undefined
    },
  }
}
