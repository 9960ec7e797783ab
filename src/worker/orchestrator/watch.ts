// The watch over executors: one whose event loop is stuck is killed, and one whose `external` body outlives its time is ended, before
// anything is verified.
import { startLooking } from '../looking.ts'
import { type Executor, STANDS_STILL_MS } from './executors.ts'
import type { Pool } from './pool.ts'

/** How long an `external` body may run after its timeout, or after it was told to stop, before its executor ends. */
const OVERDUE_GRACE_MS = 5_000
const WATCH_EVERY_MS = 500

/** Watches the pool's executors; returns what ends the watch. */
export function startWatch(pool: Pool, stuckLoopMs: number): () => void {
  return startLooking({
    everyMs: WATCH_EVERY_MS,
    look(now) {
      for (const executor of pool.executors()) {
        if (now - executor.aliveAt > stuckLoopMs) pool.kill(executor, 'stuck_loop')
        const overdue = overdueOf(executor, now, stuckLoopMs)
        if (overdue.size > 0) pool.endFor(executor, overdue)
      }
    },
    // They were not silent, they were not heard. How long their bodies took does not change by that.
    afterStandstill(ms, now) {
      for (const executor of pool.executors()) {
        executor.aliveAt += ms
        executor.turningSince = now
      }
    },
  })
}

/** The `external` calls that had their time and a grace, both while the event loop turned; a loop that often stands still stretches it only so far. */
function overdueOf({ assignments, aliveAt, turningSince }: Executor, now: number, stuckLoopMs: number): Set<string> {
  const overdue = new Set<string>()
  const isStill = now - aliveAt > STANDS_STILL_MS
  for (const { id, order, entered, stoppedAt } of assignments.values()) {
    if (!order.ticket.once || !entered) continue
    const due = Math.min(stoppedAt ?? Number.POSITIVE_INFINITY, entered.at + entered.timeoutMs)
    const hadGrace = !isStill && now - Math.max(due, turningSince) > OVERDUE_GRACE_MS
    if (hadGrace || now - due > stuckLoopMs + OVERDUE_GRACE_MS) overdue.add(id)
  }
  return overdue
}
