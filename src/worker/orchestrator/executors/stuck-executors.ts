// Watches executors: kills an executor whose event loop is blocked, and ends one whose `external` body ignores its timeout, before the
// call is verified.
import { OVERDUE_GRACE_MS } from '../../../session/call-facts.ts'
import { startPeriodicCheck } from '../../periodic-check.ts'
import { type Executor, FROZEN_MS, isOnce } from './executor-state.ts'
import type { Pool } from './pool.ts'

const WATCH_EVERY_MS = 500

/** Watches the pool's executors; returns the function that ends the watch. */
export function startWatch(pool: Pool, stuckLoopMs: number): () => void {
  return startPeriodicCheck({
    everyMs: WATCH_EVERY_MS,
    check(now) {
      for (const executor of pool.executors()) {
        if (now - executor.aliveAt > stuckLoopMs) pool.kill(executor, 'stuck_loop')
        const overdue = overdueOf(executor, now, stuckLoopMs)
        if (overdue.size > 0) pool.endFor(executor, overdue)
      }
    },
    // This process was frozen, not the executors. The durations of their bodies still apply.
    afterFreeze(ms, now) {
      for (const executor of pool.executors()) {
        executor.aliveAt += ms
        executor.unblockedSince = now
      }
    },
  })
}

/** The `external` calls past their timeout and a grace period. A blocked event loop extends this time, but only up to a limit. */
function overdueOf({ assignments, aliveAt, unblockedSince }: Executor, now: number, stuckLoopMs: number): Set<string> {
  const overdue = new Set<string>()
  const isFrozen = now - aliveAt > FROZEN_MS
  for (const one of assignments.values()) {
    const { id, entered, stoppedAt } = one
    if (!isOnce(one) || !entered) continue
    const due = Math.min(stoppedAt ?? Number.POSITIVE_INFINITY, entered.at + entered.timeoutMs)
    const hadGrace = !isFrozen && now - Math.max(due, unblockedSince) > OVERDUE_GRACE_MS
    if (hadGrace || now - due > stuckLoopMs + OVERDUE_GRACE_MS) overdue.add(id)
  }
  return overdue
}
