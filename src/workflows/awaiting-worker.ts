// Waits for a worker that serves the agent or tool. During a rolling deploy, a build that lacks it causes neither an attempt nor a death.
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'
import { defined } from '../session/defined.ts'
import type { SessionError } from '../session/state.ts'
import { CancellationScope, condition, patched, sleep } from '@temporalio/workflow'
import { backoffMs } from '../session/backoff.ts'

/** Errors that the session leaves as soon as a worker answers. */
const LEFT_WHEN_SERVED = ['agent_not_served', 'archive_unavailable', 'budget_exhausted'] as const

/** A session's own budget is raised by a person. */
const isLeftWhenServed = ({ code, strategy }: SessionError): boolean =>
  strategy === 'automatic' && LEFT_WHEN_SERVED.some((one) => one === code)

/** How long a session waits before it reports that no worker serves it. */
export const NOT_SERVED_AFTER_MS = 120_000

/** Enters and leaves `error: agent_not_served` and `error: archive_unavailable`. */
export interface ServingWatch {
  /** Handles an activity that no worker served: waits briefly, and enters the error after the grace period. */
  notServed(what: string): Promise<void>
  /** Whether the grace period is over; it begins with the first check. */
  isGraceOver(): boolean
  /** Waits until `isDone` says so (true) or the grace period is over (false). */
  inGrace(isDone: () => boolean): Promise<boolean>
  /** Enters the error now. */
  enterError(what: string): void
  /** Enters the error because of what a worker says, instead of one with another cause. */
  holdsUp(code: 'archive_unavailable' | 'budget_exhausted', reason: string): void
  /** Leaves the error, because a worker has answered. */
  served(): void
}

export function startServing(journal: Journal, flushing: Flushing, graceMs: number): ServingWatch {
  const grace = startGrace(graceMs)
  const retryWaits = startRetryWaits()

  function enter(code: (typeof LEFT_WHEN_SERVED)[number], reason: string): void {
    const run = journal.state.current?.run
    const bounded = cutText(reason, TEXT_BYTES.reason)
    journal.append({ type: 'error_entered', code, reason: bounded, strategy: 'automatic', ...defined({ run }) })
    flushing.nudge()
  }

  function enterError(what: string): void {
    // That nobody answers explains less than what the session knows.
    if (journal.state.status === 'error') return
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
    holdsUp(code, reason) {
      const { status, error } = journal.state
      const isOther = status === 'error' && error !== null && isLeftWhenServed(error) && error.code !== code
      if (status !== 'error' || (isOther && patched('says-new-cause'))) enter(code, reason)
    },
    served() {
      grace.reset()
      retryWaits.served()
      const { status, error, current } = journal.state
      if (status !== 'error' || !error || !isLeftWhenServed(error)) return
      journal.append({ type: 'recovery_ended', strategy: 'automatic', ...(current && { run: current.run }) })
    },
  }
}

/** A grace period that begins when it is first checked. */
interface Grace {
  isOver(): boolean
  /** Waits until `isDone` says so (true) or the grace period is over (false). */
  until(isDone: () => boolean): Promise<boolean>
  /** Ends the grace period; the next check starts it again. */
  reset(): void
}

/** It is over when its timer has fired, whatever the clock says (see alarms.ts). */
function startGrace(graceMs: number): Grace {
  // Runs outside the scope of the step that first checks it, because it must outlive that step.
  const parent = CancellationScope.current()
  let spell: { scope: CancellationScope; isOver: boolean } | undefined

  function begun(): { isOver: boolean } {
    if (spell) return spell
    const mine = { scope: new CancellationScope({ cancellable: true, parent }), isOver: false }
    spell = mine
    mine.scope
      .run(() => sleep(Math.max(1, graceMs)))
      .then(
        () => {
          mine.isOver = true
        },
        () => undefined,
      )
    return mine
  }

  return {
    isOver: () => begun().isOver,
    async until(isDone) {
      const mine = begun()
      await condition(() => isDone() || mine.isOver)
      return isDone()
    },
    reset() {
      spell?.scope.cancel()
      spell = undefined
    },
  }
}

/** With two builds on one queue, the other one probably gets the next retry. A server timer may take a second. */
const IMMEDIATE_RETRIES = 2

const FIRST_WAIT_MS = 50

const LONGEST_WAIT_MS = 5_000

/** The waits between retries, which grow. Parallel steps share one wait, so that no step delays another's next retry. */
interface RetryWaits {
  /** Waits until the next retry. Joins a wait in progress; otherwise waits as long as the number of retries requires. */
  wait(): Promise<void>
  /** Resets the waits, because a worker served the request. */
  served(): void
}

function startRetryWaits(): RetryWaits {
  // Runs outside the scope of the step that waits first, because others may still be waiting when that step is stopped.
  const parent = CancellationScope.current()
  let asked = 0
  let round: { isOver: boolean } | undefined

  const waitMs = (): number => Math.min(backoffMs(FIRST_WAIT_MS, asked - IMMEDIATE_RETRIES), LONGEST_WAIT_MS)

  function begin(): { isOver: boolean } {
    const mine = { isOver: false }
    const end = (): void => {
      mine.isOver = true
      round = undefined
    }
    new CancellationScope({ cancellable: true, parent }).run(() => sleep(waitMs())).then(end, end)
    return mine
  }

  return {
    async wait() {
      if (!round) {
        asked += 1
        if (asked <= IMMEDIATE_RETRIES) return
        round = begin()
      }
      const mine = round
      await condition(() => mine.isOver)
    },
    served() {
      asked = 0
    },
  }
}
