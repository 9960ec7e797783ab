// Waits for a worker that serves the agent or tool. During a rolling deploy, a build that lacks it causes neither an attempt nor a death.
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import { startRetryWaits } from './retry-waits.ts'
import type { Flushing } from './flushing.ts'
import { startGrace } from './grace.ts'
import type { Journal } from './journal.ts'
import { defined } from '../session/defined.ts'

/** Errors that the session leaves when the next answer arrives. */
const LEFT_WHEN_SERVED = ['agent_not_served', 'archive_unavailable'] as const

/** How long a session waits before it reports that no worker serves it. */
export const NOT_SERVED_AFTER_MS = 120_000

/** Enters and leaves `error: agent_not_served` and `error: archive_unavailable`. */
export interface ServingWatch {
  /** Handles an activity that no worker served: waits briefly, and enters the error after the grace period. */
  notServed(what: string): Promise<void>
  /** Whether the grace period is over; it begins with the first query. */
  isGraceOver(): boolean
  /** Waits until `done` settles (true) or the grace period is over (false). */
  inGrace(isDone: () => boolean): Promise<boolean>
  /** Enters the error now. */
  enterError(what: string): void
  /** Enters the error because data that only the side store has is needed and the store is unavailable. */
  archiveUnavailable(reason: string): void
  /** Leaves the error, because a worker has answered. */
  served(): void
}

/** The waits of one session. */
export function startServing(journal: Journal, flushing: Flushing, graceMs: number): ServingWatch {
  const grace = startGrace(graceMs)
  const retryWaits = startRetryWaits()

  function enter(code: (typeof LEFT_WHEN_SERVED)[number], reason: string): void {
    if (journal.state.status === 'error') return
    const run = journal.state.current?.run
    const said = cutText(reason, TEXT_BYTES.reason)
    journal.append({ type: 'error_entered', code, reason: said, strategy: 'automatic', ...defined({ run }) })
    flushing.nudge()
  }

  function enterError(what: string): void {
    enter('agent_not_served', `No worker on the task queue serves ${what}: start one that does; the session continues by itself.`)
  }

  return {
    async notServed(what) {
      if (grace.isOver()) enterError(what)
      await retryWaits.wait()
    },
    isGraceOver: grace.isOver,
    inGrace: grace.until,
    enterError,
    archiveUnavailable: (reason) => enter('archive_unavailable', reason),
    served() {
      grace.reset()
      retryWaits.served()
      const { status, error, current } = journal.state
      if (status !== 'error' || !LEFT_WHEN_SERVED.some((code) => code === error?.code)) return
      journal.append({ type: 'recovery_ended', strategy: 'automatic', ...(current && { run: current.run }) })
    },
  }
}
