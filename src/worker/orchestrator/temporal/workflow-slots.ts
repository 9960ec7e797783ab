// Slots for workflow tasks: how many are taken from the server at a time, so that each ends within its timeout even if it needs a replay.
import type { CustomSlotSupplier, SlotPermit, SlotReserveContext, WorkerOptions, WorkflowSlotInfo } from '@temporalio/worker'
import { steadyNow } from '../../steady-clock.ts'

/** Workflow tasks in progress, and polls for them: as many as by the SDK's default. */
const SLOTS = 40
/** Attempts in progress: the SDK's default, as for the kinds of tasks that pawl does not have. */
const OTHER_SLOTS = 100
/**
 * How many of the slots may be for sessions that this worker does not have in its cache. All replays share one thread, so they get slower
 * the more there are, and a task whose replay exceeds the timeout of 3 s is lost and begins again. With one slot, a task that hangs would
 * stop them all.
 */
const LEAST_COLD = 2
const MOST_COLD = 10
/** A task that took less allows one more at a time. Includes the round trips to a server that is far away. */
const QUICK_MS = 500
/** A task that takes more reduces them to the least. */
const SLOW_MS = 1_000

interface Permit extends SlotPermit {
  isCold: boolean
  /** When a task came for it. */
  usedAt?: number
}

interface WaitingPoll {
  isCold: boolean
  take(): void
}

/**
 * Slots for workflow tasks. A sticky queue has the tasks of sessions in the cache, which take milliseconds. Those of the common queue may
 * need the replay of a long history: after an outage of all workers, every session's first task does. A task that was taken cannot be
 * returned, so only as many are taken as are replayed in time; the others wait in the server's queue, where nothing times out.
 */
export function workflowSlots(): CustomSlotSupplier<WorkflowSlotInfo> {
  const held = new Set<Permit>()
  const waiting = new Set<WaitingPoll>()
  let mostCold = LEAST_COLD

  const cold = (): Permit[] => [...held].filter(({ isCold }) => isCold)

  function hasRoom(isCold: boolean): boolean {
    if (held.size >= SLOTS) return false
    return !isCold || cold().length < mostCold
  }

  function take(isCold: boolean): Permit {
    const permit: Permit = { isCold }
    held.add(permit)
    return permit
  }

  /** Adapts to how long a task from the common queue took. */
  function adapt({ isCold, usedAt }: Permit): void {
    if (!isCold || usedAt === undefined) return
    const ms = steadyNow() - usedAt
    if (ms > SLOW_MS) mostCold = LEAST_COLD
    else if (ms < QUICK_MS) mostCold = Math.min(mostCold + 1, MOST_COLD)
  }

  function serveWaiting(): void {
    for (const one of waiting) {
      if (!hasRoom(one.isCold)) continue
      waiting.delete(one)
      one.take()
    }
  }

  return {
    type: 'custom',
    reserveSlot({ isSticky }: SlotReserveContext, aborted: AbortSignal) {
      const isCold = !isSticky
      if (hasRoom(isCold)) return Promise.resolve(take(isCold))
      return new Promise((resolve, reject) => {
        const one: WaitingPoll = {
          isCold,
          take() {
            aborted.removeEventListener('abort', abort)
            resolve(take(isCold))
          },
        }
        const abort = (): void => {
          waiting.delete(one)
          reject(aborted.reason as Error)
        }
        waiting.add(one)
        aborted.addEventListener('abort', abort, { once: true })
      })
    },
    tryReserveSlot: ({ isSticky }) => (hasRoom(!isSticky) ? take(!isSticky) : null),
    markSlotUsed({ permit }) {
      ;(permit as Permit).usedAt = steadyNow()
    },
    releaseSlot({ permit }) {
      held.delete(permit as Permit)
      adapt(permit as Permit)
      serveWaiting()
    },
  }
}

/** The slots of a worker that has none of the user's own. */
export function ownTuner(): NonNullable<WorkerOptions['tuner']> {
  const others = { type: 'fixed-size', numSlots: OTHER_SLOTS } as const
  return {
    workflowTaskSlotSupplier: workflowSlots(),
    activityTaskSlotSupplier: others,
    localActivityTaskSlotSupplier: others,
    nexusTaskSlotSupplier: others,
  }
}
