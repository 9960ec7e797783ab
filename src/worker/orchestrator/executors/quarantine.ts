// Keeps work that has killed executors away from other work, so that one session's bug does not cost the others their calls.
import type { JobOrder } from '../../../jobs/contract.ts'
import { MAX_DEATHS } from '../../../session/attempts.ts'
import { doubled } from '../../../session/backoff.ts'
import { countDeaths } from './deaths.ts'
import { type Executor, takesJobs } from './executors.ts'
import { steadyNow } from '../../steady-clock.ts'

/** Deaths after which work is a suspect. One death says little: whatever shared the process died with it. */
const SUSPECT_AFTER = 2
/** How long an executor is kept for suspects after the last one: longer than the pauses between a call's attempts. */
const KEPT_MS = 90_000
/**
 * The pause after a suspect's death, doubled with each death in a row: replacing an executor takes a third of a second of CPU time, which
 * slows healthy sessions. A suspect that has not yet died as one does not wait for it.
 */
const PAUSE_MS = 125
const LONGEST_PAUSE_MS = 15_000
/** Deaths of suspects that are further apart are not in a row. */
const IN_A_ROW_MS = 60_000
/**
 * How long a suspect waits before it joins those that run. Its two or three deaths may be chance, and a healthy body may run for minutes. If
 * it is the cause, this costs each of the others one death.
 */
const WAIT_MS = 1_000
/**
 * The wait if the suspect's next death could be the last for its call, or if one of those that run has had that additional death. The wait
 * counts towards its activity's limit, which has room for a frozen worker.
 */
const LONGEST_WAIT_MS = 10_000
/** How long the successor of the executor for suspects may take to start before they run beside other work. */
const SUCCESSOR_WITHIN_MS = 10_000
/** How long a suspect may take from its turn to its assignment. */
const ENTERS_WITHIN_MS = 1_000

/** What the quarantine knows. */
export interface Quarantine {
  /** Of the executors that accept jobs, those that the order may run on; at least one of them. */
  narrow(order: JobOrder, candidates: Executor[]): Executor[]
  /** Resolves at once for work that is not a suspect. A suspect waits for its turn; suspects that have waited long enough enter together. */
  turn(order: JobOrder): Promise<void>
  /** An executor was connected. */
  connected(executor: Executor): void
  /** An executor died, and one of `guilty` may be the cause. */
  died(executor: Executor, guilty: readonly JobOrder[]): void
  /** A job has left its executor. `isDone`: it has an outcome. */
  ended(order: JobOrder, isDone: boolean): void
}

/** A suspect that waits for its turn. */
interface Waiting {
  order: JobOrder
  since: number
  /** Makes it check whether its turn has come. */
  look(): void
}

/** Starts a quarantine. A worker with only one executor cannot keep work apart. */
export function startQuarantine(): Quarantine {
  const deaths = countDeaths()
  const waiting: Waiting[] = []
  let kept: { place: Executor | undefined; vacantSince: number; until: number } | undefined
  let deathsInARow = 0
  let lastDeathAt = 0
  let pausedUntil = 0
  /** A suspect is about to enter: until then, no other suspect gets its turn. */
  let enteringUntil = 0

  const isSuspect = (order: JobOrder): boolean => deaths.of(order) >= SUSPECT_AFTER

  /** The suspect with the fewest deaths goes first: it may only have shared an executor with another suspect. */
  function next(): Waiting | undefined {
    return waiting.toSorted((one, other) => deaths.of(one.order) - deaths.of(other.order))[0]
  }

  function wake(): void {
    for (const one of [...waiting]) one.look()
  }

  /** The executor for suspects, while one is kept; `place` is undefined while its successor starts. */
  function keeping(): typeof kept {
    if (kept && steadyNow() >= kept.until) kept = undefined
    if (kept?.place && !takesJobs(kept.place)) vacate(kept)
    return kept
  }

  function vacate(place: NonNullable<typeof kept>): void {
    place.place = undefined
    place.vacantSince = steadyNow()
  }

  /** Until when a successor is expected. */
  function successorUntil(): number {
    const now = keeping()
    return now && !now.place ? now.vacantSince + SUCCESSOR_WITHIN_MS : 0
  }

  /** The suspects that run on the executor for suspects. */
  function running(): JobOrder[] {
    const assignments = keeping()?.place?.assignments.values() ?? []
    return [...assignments].flatMap(({ order }) => (isSuspect(order) ? [order] : []))
  }

  function isFree(): boolean {
    const now = keeping()
    return !now || (now.place !== undefined && running().length === 0)
  }

  /** When the suspect has waited long enough to join those that run. */
  function joinsAt({ order, since }: Waiting): number {
    const isTooRisky = deaths.of(order) >= MAX_DEATHS - 1 || running().some((one) => deaths.of(one) > SUSPECT_AFTER)
    return since + (isTooRisky ? LONGEST_WAIT_MS : WAIT_MS)
  }

  /** When the pauses that hold up the suspect's turn end. */
  function closedUntil({ order }: Waiting): number {
    return Math.max(enteringUntil, deaths.of(order) > SUSPECT_AFTER ? pausedUntil : 0)
  }

  return {
    narrow(order, candidates) {
      const place = keeping()?.place
      if (!isSuspect(order)) {
        const others = candidates.filter((one) => one !== place)
        // A frozen executor is worse than the one for suspects.
        return others.some(({ isSilent }) => !isSilent) ? others : candidates
      }
      // It has entered: from now on, its assignment decides when the next suspect may enter.
      enteringUntil = 0
      wake()
      if (candidates.length < 2) return candidates
      const chosen = place && candidates.includes(place) ? place : leastBusy(candidates)
      kept = { place: chosen, vacantSince: 0, until: steadyNow() + KEPT_MS }
      return [chosen]
    },
    async turn(order) {
      if (isSuspect(order)) await inTurn(order)
    },
    connected(executor) {
      const now = keeping()
      if (now && !now.place) now.place = executor
      wake()
    },
    died(executor, guilty) {
      const now = steadyNow()
      if (guilty.some(isSuspect)) {
        if (now - lastDeathAt > IN_A_ROW_MS) deathsInARow = 0
        pausedUntil = now + Math.min(doubled(PAUSE_MS, deathsInARow++), LONGEST_PAUSE_MS)
        lastDeathAt = now
      }
      deaths.count(guilty)
      if (kept?.place === executor) vacate(kept)
      // The successor is kept for suspects, so that the next attempt finds it empty.
      else if (!keeping() && guilty.some(isSuspect)) kept = { place: undefined, vacantSince: now, until: now + KEPT_MS }
      wake()
    },
    ended(order, isDone) {
      if (isDone) deaths.forgive(order)
      wake()
    },
  }

  function mayEnter(one: Waiting, now: number): boolean {
    if (!isSuspect(one.order)) return true
    if (now < closedUntil(one)) return false
    // Suspects that have waited long enough enter together, but wait for a successor that is about to start.
    return (isFree() && next() === one) || now >= Math.max(joinsAt(one), successorUntil())
  }

  async function inTurn(order: JobOrder): Promise<void> {
    const me: Waiting = { order, since: steadyNow(), look: () => undefined }
    waiting.push(me)
    for (let now = steadyNow(); !mayEnter(me, now); now = steadyNow()) {
      const nextChange = Math.min(...[closedUntil(me), joinsAt(me), successorUntil()].filter((at) => at > now))
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, nextChange - now)
        me.look = () => (clearTimeout(timer), resolve())
      })
    }
    waiting.splice(waiting.indexOf(me), 1)
    if (isSuspect(order)) enteringUntil = steadyNow() + ENTERS_WITHIN_MS
    wake()
  }
}

function leastBusy(candidates: readonly Executor[]): Executor {
  return candidates.reduce((best, one) => (one.assignments.size < best.assignments.size ? one : best))
}
