// Keeps work that has killed executors away from other work, so that one session's bug does not cost the others their calls.
import type { JobOrder } from '../../jobs/contract.ts'
import { doubled } from '../../session/backoff.ts'
import { countDeaths } from './deaths.ts'
import { type Executor, takesJobs } from './executors.ts'

/** Deaths after which work is a suspect. One death says little: whatever shared the process died with it. */
const SUSPECT_AFTER = 2
/** How long an executor is kept for suspects after the last one: longer than the pauses between a call's attempts. */
const KEPT_MS = 90_000
/**
 * The pause after a suspect's death, doubled with each in a row: to replace an executor takes a third of a second of CPU, which healthy
 * sessions feel. A suspect that has not yet died as one does not wait for it.
 */
const PAUSE_MS = 125
const LONGEST_PAUSE_MS = 15_000
/** Deaths of suspects that are further apart are not in a row. */
const IN_A_ROW_MS = 60_000
/** How long a suspect waits for its turn. The time counts for its activity, whose limit has room for a standstill of the worker. */
const LONGEST_WAIT_MS = 10_000
/** How long the successor of the executor for suspects may take to start before they run beside other work. */
const SUCCESSOR_WITHIN_MS = 10_000
/** From a suspect's turn to its job. */
const ENTERS_WITHIN_MS = 1_000

/** What the quarantine knows. */
export interface Quarantine {
  /** Of the executors that accept jobs, those that the order may run on; at least one of them. */
  narrow(order: JobOrder, candidates: Executor[]): Executor[]
  /** Resolves at once for work that is no suspect. A suspect waits for its turn; those that have waited for long enter together. */
  turn(order: JobOrder): Promise<void>
  /** An executor was connected. */
  connected(executor: Executor): void
  /** An executor died, and `guilty` may be why. */
  died(executor: Executor, guilty: readonly JobOrder[]): void
  /** A job has left its executor, `isDone`: with an outcome. */
  ended(order: JobOrder, isDone: boolean): void
}

/** A suspect that waits for its turn. */
interface Waiting {
  order: JobOrder
  /** Makes it look whether its turn has come. */
  look(): void
}

/** Starts one. A worker with one executor has nowhere to keep anything. */
export function startQuarantine(): Quarantine {
  const deaths = countDeaths()
  const waiting: Waiting[] = []
  let kept: { place: Executor | undefined; vacantSince: number; until: number } | undefined
  let deathsInARow = 0
  let lastDeathAt = 0
  let pausedUntil = 0
  /** A suspect is about to enter: no other one gets its turn before. */
  let enteringUntil = 0

  const isSuspect = (order: JobOrder): boolean => deaths.of(order) >= SUSPECT_AFTER

  /** The suspect with the fewest deaths goes first: it may only have been beside another one. */
  function next(): Waiting | undefined {
    return waiting.toSorted((one, other) => deaths.of(one.order) - deaths.of(other.order))[0]
  }

  function wake(): void {
    next()?.look()
  }

  /** The executor for suspects, while one is kept; `place` is undefined while its successor starts. */
  function keeping(): typeof kept {
    if (kept && Date.now() >= kept.until) kept = undefined
    if (kept?.place && !takesJobs(kept.place)) vacate(kept)
    return kept
  }

  function vacate(place: NonNullable<typeof kept>): void {
    place.place = undefined
    place.vacantSince = Date.now()
  }

  /** Until when a successor is expected. */
  function successorUntil(): number {
    const now = keeping()
    return now && !now.place ? now.vacantSince + SUCCESSOR_WITHIN_MS : 0
  }

  function isFree(): boolean {
    const now = keeping()
    if (!now) return true
    return now.place !== undefined && ![...now.place.assignments.values()].some(({ order }) => isSuspect(order))
  }

  /** The end of the pauses that keep it from its turn. */
  function closedUntil({ order }: Waiting): number {
    return Math.max(enteringUntil, deaths.of(order) > SUSPECT_AFTER ? pausedUntil : 0)
  }

  return {
    narrow(order, candidates) {
      const place = keeping()?.place
      if (!isSuspect(order)) {
        const others = candidates.filter((one) => one !== place)
        // A frozen executor is worse.
        return others.some(({ isSilent }) => !isSilent) ? others : candidates
      }
      // It has entered: the next one may see how long it stays.
      enteringUntil = 0
      wake()
      if (candidates.length < 2) return candidates
      const chosen = place && candidates.includes(place) ? place : leastBusy(candidates)
      kept = { place: chosen, vacantSince: 0, until: Date.now() + KEPT_MS }
      return [chosen]
    },
    async turn(order) {
      if (isSuspect(order)) await inTurn(order)
    },
    connected(executor) {
      const now = keeping()
      if (now && !now.place) now.place = executor
      for (const one of [...waiting]) one.look()
    },
    died(executor, guilty) {
      const now = Date.now()
      if (guilty.some(isSuspect)) {
        if (now - lastDeathAt > IN_A_ROW_MS) deathsInARow = 0
        pausedUntil = now + Math.min(doubled(PAUSE_MS, deathsInARow++), LONGEST_PAUSE_MS)
        lastDeathAt = now
      }
      deaths.count(guilty)
      if (kept?.place === executor) vacate(kept)
      // Its successor is kept, so that the next attempt finds it empty.
      else if (!keeping() && guilty.some(isSuspect)) kept = { place: undefined, vacantSince: now, until: now + KEPT_MS }
      wake()
    },
    ended(order, isDone) {
      if (isDone) deaths.forgive(order)
      for (const one of [...waiting]) one.look()
    },
  }

  function mayEnter(one: Waiting, giveUpAt: number, now: number): boolean {
    if (!isSuspect(one.order)) return true
    if (now < closedUntil(one)) return false
    // Those that have waited for long enter together, as soon as a successor that is about to start is there.
    return (next() === one && isFree()) || now >= Math.max(giveUpAt, successorUntil())
  }

  async function inTurn(order: JobOrder): Promise<void> {
    const giveUpAt = Date.now() + LONGEST_WAIT_MS
    const me: Waiting = { order, look: () => undefined }
    waiting.push(me)
    for (let now = Date.now(); !mayEnter(me, giveUpAt, now); now = Date.now()) {
      const nextChange = Math.min(...[closedUntil(me), giveUpAt, successorUntil()].filter((at) => at > now))
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, nextChange - now)
        me.look = () => (clearTimeout(timer), resolve())
      })
    }
    waiting.splice(waiting.indexOf(me), 1)
    if (isSuspect(order)) enteringUntil = Date.now() + ENTERS_WITHIN_MS
    wake()
  }
}

function leastBusy(candidates: readonly Executor[]): Executor {
  return candidates.reduce((best, one) => (one.assignments.size < best.assignments.size ? one : best))
}
