// Waiting for a worker that serves the agent or tool: a rolling deploy, or a build that lacks it, is neither an attempt nor a death.
import { sleep } from '@temporalio/workflow'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'

/** Of two builds on one queue the other one probably gets the next ask; a timer of the server may take a second. */
const ASKED_AT_ONCE = 2
const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 5_000

/** Errors that end when what was asked for is answered. */
const LEFT_WHEN_SERVED = ['agent_not_served', 'archive_unavailable'] as const

/** How long a session waits before it says that nobody serves it. */
export const NOT_SERVED_AFTER_MS = 120_000

/** Enters and leaves `error: agent_not_served` and `error: archive_unavailable`. */
export interface Serving {
  /** Nobody served what was asked: says so after the grace time, and waits a little. */
  notServed(what: string): Promise<void>
  /** Milliseconds of grace left, or none. */
  graceLeft(): number
  /** Says it now. */
  enterError(what: string): void
  /** What only the side store has is needed, and the store cannot be had: says so. */
  archiveUnavailable(reason: string): void
  /** Somebody serves it (again), with all that it needs. */
  served(): void
}

/** The serving of one session. */
export function startServing(journal: Journal, flushing: Flushing, graceMs: number): Serving {
  let since: number | undefined
  let asked = 0

  function enter(code: (typeof LEFT_WHEN_SERVED)[number], reason: string): void {
    if (journal.state.status === 'error') return
    const run = journal.state.current?.run
    journal.append({ type: 'error_entered', code, reason, strategy: 'automatic', ...(run !== undefined && { run }) })
    flushing.nudge()
  }

  function enterError(what: string): void {
    enter('agent_not_served', `No worker on the task queue serves ${what}: start one that does; the session goes on by itself.`)
  }

  return {
    async notServed(what) {
      since ??= Date.now()
      if (Date.now() - since >= graceMs) enterError(what)
      asked += 1
      if (asked > ASKED_AT_ONCE) await sleep(Math.min(FIRST_WAIT_MS * 2 ** (asked - ASKED_AT_ONCE - 1), LONGEST_WAIT_MS))
    },
    graceLeft() {
      since ??= Date.now()
      return Math.max(0, graceMs - (Date.now() - since))
    },
    enterError,
    archiveUnavailable: (reason) => enter('archive_unavailable', reason),
    served() {
      since = undefined
      asked = 0
      const { status, error, current } = journal.state
      if (status !== 'error' || !LEFT_WHEN_SERVED.some((code) => code === error?.code)) return
      journal.append({ type: 'recovery_ended', strategy: 'automatic', ...(current && { run: current.run }) })
    },
  }
}
