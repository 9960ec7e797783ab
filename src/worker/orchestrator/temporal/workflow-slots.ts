// Slots for workflow tasks: limits how many are taken from the server at a time, so that each ends within its timeout even if it needs a
// replay.
import type { CustomSlotSupplier, SlotPermit, SlotReserveContext, WorkerOptions, WorkflowSlotInfo } from '@temporalio/worker'
import { steadyNow } from '../../steady-clock.ts'

/** Workflow tasks in progress, plus polls for them. This is the SDK's default. */
const SLOTS = 40
/** Attempts in progress. This is the SDK's default, also used for the kinds of tasks that pawl does not have. */
const OTHER_SLOTS = 100
/**
 * How many slots at least may serve sessions that are not in this worker's cache. All replays share one thread, so each gets slower the
 * more there are, and a task whose replay exceeds the timeout of 3 s is lost and begins again. With only one slot, a task that hangs would
 * stop all replays.
 */
const LEAST_COLD = 2
const MOST_COLD = 10
/** A faster task raises the limit by one. The time includes the round trips to a distant server. */
const QUICK_MS = 500
/** A slower task lowers the limit to the least. */
const SLOW_MS = 1_000

interface Permit extends SlotPermit {
  isCold: boolean
  /** When a task used it. */
  usedAt?: number
}

interface WaitingPoll {
  isCold: boolean
  take(): void
}

/**
 * Slots for workflow tasks. Tasks from a sticky queue belong to cached sessions and take milliseconds. Tasks from the common queue may need
 * the replay of a long history; after an outage of all workers, every session's first task does. A task that was taken cannot be returned,
 * so the worker takes only as many as it can replay in time. The others wait in the server's queue, where nothing times out.
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

  /** Adapts the limit to the duration of a task from the common queue. */
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

/** The slots of a worker whose user has not provided a tuner. */
export function ownTuner(): NonNullable<WorkerOptions['tuner']> {
  const others = { type: 'fixed-size', numSlots: OTHER_SLOTS } as const
  return {
    workflowTaskSlotSupplier: workflowSlots(),
    activityTaskSlotSupplier: others,
    localActivityTaskSlotSupplier: others,
    nexusTaskSlotSupplier: others,
  }
}
