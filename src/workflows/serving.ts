// Waiting for a worker that serves the agent or tool: a rolling deploy, or a build that lacks it, is neither an attempt nor a death.
import { sleep } from '@temporalio/workflow'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'

/** Of two builds on one queue the other one probably gets the next ask; a timer of the server may take a second. */
const ASKED_AT_ONCE = 2
const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 5_000

/** How long a session waits before it says that nobody serves it. */
export const NOT_SERVED_AFTER_MS = 120_000

/** Enters and leaves `error: agent_not_served`. */
export interface Serving {
  /** Nobody served what was asked: says so after the grace time, and waits a little. */
  notServed(what: string): Promise<void>
  /** Milliseconds of grace left, or none. */
  graceLeft(): number
  /** Says it now. */
  enterError(what: string): void
  /** Somebody serves it (again). */
  served(): void
}

/** The serving of one session. */
export function startServing(journal: Journal, flushing: Flushing, graceMs: number): Serving {
  let since: number | undefined
  let asked = 0

  function enterError(what: string): void {
    if (journal.state.status === 'error') return
    const run = journal.state.current?.run
    journal.append({
      type: 'error_entered',
      code: 'agent_not_served',
      reason: `No worker on the task queue serves ${what}: start one that does; the session goes on by itself.`,
      strategy: 'automatic',
      ...(run !== undefined && { run }),
    })
    flushing.nudge()
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
    served() {
      since = undefined
      asked = 0
      const { status, error, current } = journal.state
      if (status !== 'error' || error?.code !== 'agent_not_served') return
      journal.append({ type: 'recovery_ended', strategy: 'automatic', ...(current && { run: current.run }) })
    },
  }
}
