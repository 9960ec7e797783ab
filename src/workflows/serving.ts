// Waiting for a worker that serves the agent or tool: a rolling deploy, or a build that lacks it, is neither an attempt nor a death.
import { cutText, TEXT_BYTES } from '../session/texts.ts'
import { startAskingAgain } from './asking-again.ts'
import type { Flushing } from './flushing.ts'
import { startGrace } from './grace.ts'
import type { Journal } from './journal.ts'
import { defined } from '../session/defined.ts'

/** Errors that end when what was asked for is answered. */
const LEFT_WHEN_SERVED = ['agent_not_served', 'archive_unavailable'] as const

/** How long a session waits before it says that nobody serves it. */
export const NOT_SERVED_AFTER_MS = 120_000

/** Enters and leaves `error: agent_not_served` and `error: archive_unavailable`. */
export interface Serving {
  /** Nobody served what was asked: says so after the grace time, and waits a little. */
  notServed(what: string): Promise<void>
  /** Whether the grace time is over; it begins when it is first asked for. */
  isGraceOver(): boolean
  /** Waits until it is done, which is true, or the grace time over. */
  inGrace(isDone: () => boolean): Promise<boolean>
  /** Says it now. */
  enterError(what: string): void
  /** What only the side store has is needed, and the store cannot be had: says so. */
  archiveUnavailable(reason: string): void
  /** Somebody serves it (again), with all that it needs. */
  served(): void
}

/** The serving of one session. */
export function startServing(journal: Journal, flushing: Flushing, graceMs: number): Serving {
  const grace = startGrace(graceMs)
  const askingAgain = startAskingAgain()

  function enter(code: (typeof LEFT_WHEN_SERVED)[number], reason: string): void {
    if (journal.state.status === 'error') return
    const run = journal.state.current?.run
    const said = cutText(reason, TEXT_BYTES.reason)
    journal.append({ type: 'error_entered', code, reason: said, strategy: 'automatic', ...defined({ run }) })
    flushing.nudge()
  }

  function enterError(what: string): void {
    enter('agent_not_served', `No worker on the task queue serves ${what}: start one that does; the session goes on by itself.`)
  }

  return {
    async notServed(what) {
      if (grace.isOver()) enterError(what)
      await askingAgain.wait()
    },
    isGraceOver: grace.isOver,
    inGrace: grace.until,
    enterError,
    archiveUnavailable: (reason) => enter('archive_unavailable', reason),
    served() {
      grace.reset()
      askingAgain.served()
      const { status, error, current } = journal.state
      if (status !== 'error' || !LEFT_WHEN_SERVED.some((code) => code === error?.code)) return
      journal.append({ type: 'recovery_ended', strategy: 'automatic', ...(current && { run: current.run }) })
    },
  }
}
