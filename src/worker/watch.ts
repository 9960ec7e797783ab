// The supervisor's watch: kills processes that stand still, or hold an attempt past its time, before anything is verified.
import type { Logger } from '../agent/tool.ts'
import type { DeathReport } from '../activities/contract.ts'
import { WorkerError } from './errors.ts'
import { type Child, STANDS_STILL_MS } from './supervised-child.ts'

/** How long an attempt may go on after its timeout, or after it was told to stop, before its process is killed. */
const OVERDUE_GRACE_MS = 5_000
const STUCK_LOOP_MS = 60_000
/**
 * The workflow takes an attempt for lost two minutes after its timeout. Whatever stands still must be dead by then: a grace, and
 * a few looks of the watch, before that.
 */
const STUCK_LOOP_AT_MOST_MS = 110_000
const WATCH_EVERY_MS = 500

/** How long an event loop may stand still. @throws WorkerError `invalid_options`. */
export function checkStuckLoopMs(given: number | undefined): number {
  if (given === undefined) return STUCK_LOOP_MS
  if (Number.isFinite(given) && given > 0 && given <= STUCK_LOOP_AT_MOST_MS) return given
  throw new WorkerError(
    'invalid_options',
    `stuckLoopMs is ${String(given)}: give milliseconds above 0 and up to ${STUCK_LOOP_AT_MOST_MS}. A process that stands still must be ` +
      'killed before its sessions take its calls for lost and verify or repeat them, two minutes after their timeouts.',
  )
}

/** Watches the processes; gives what ends the watch. */
export function startWatch(children: ReadonlySet<Child>, stuckLoopMs: number, logger: Logger): () => void {
  const watching = setInterval(() => {
    const now = Date.now()
    for (const child of children) {
      if (child.ready && now - child.aliveAt > stuckLoopMs) kill(child, 'stuck_loop', new Set(), logger)
      const overdue = overdueOf(child, now, stuckLoopMs)
      if (overdue.size > 0) kill(child, 'overdue', overdue, logger)
    }
  }, WATCH_EVERY_MS)
  return () => clearInterval(watching)
}

/** The attempts that had their time and a grace, both while the event loop turned; a loop that often stands still stretches it only so far. */
function overdueOf(child: Child, now: number, stuckLoopMs: number): Set<number> {
  const overdue = new Set<number>()
  const isStill = now - child.aliveAt > STANDS_STILL_MS
  for (const [id, { timeoutMs }] of child.desk.beater.held()) {
    const since = child.heldSince.get(id) ?? now
    const ends = [child.stoppedAt.get(id), timeoutMs === undefined ? undefined : since + timeoutMs]
    const due = Math.min(...ends.filter((end) => end !== undefined))
    const hadGrace = !isStill && now - Math.max(due, child.turningSince) > OVERDUE_GRACE_MS
    if (hadGrace || now - due > stuckLoopMs + OVERDUE_GRACE_MS) overdue.add(id)
  }
  return overdue
}

function kill(child: Child, cause: DeathReport['cause'], guilty: Set<number>, logger: Logger): void {
  if (child.killed) return
  child.killed = { cause, guilty }
  logger.warn({ pid: child.pid, cause }, 'a worker process is killed')
  child.process.kill('SIGKILL')
}
