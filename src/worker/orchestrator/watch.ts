// The watch over executors: one whose event loop is stuck is killed, and one whose `external` body outlives its time is ended, before
// anything is verified.
import { type Executor, STANDS_STILL_MS } from './executors.ts'
import type { Pool } from './pool.ts'

/** How long an `external` body may run after its timeout, or after it was told to stop, before its executor ends. */
const OVERDUE_GRACE_MS = 5_000
const WATCH_EVERY_MS = 500
/** A look that comes so much too late says that this process was paused, or the machine was: it has not read yet what executors said. */
const PAUSED_MS = 1_000

/** Watches the pool's executors; returns what ends the watch. */
export function startWatch(pool: Pool, stuckLoopMs: number): () => void {
  let lookedAt = Date.now()
  const watching = setInterval(() => {
    const now = Date.now()
    const lateMs = now - lookedAt - WATCH_EVERY_MS
    lookedAt = now
    if (lateMs > PAUSED_MS) {
      for (const executor of pool.executors()) executor.aliveAt += lateMs
      return
    }
    for (const executor of pool.executors()) {
      if (now - executor.aliveAt > stuckLoopMs) pool.kill(executor, 'stuck_loop')
      const overdue = overdueOf(executor, now, stuckLoopMs)
      if (overdue.size > 0) pool.endFor(executor, overdue)
    }
  }, WATCH_EVERY_MS)
  return () => clearInterval(watching)
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
