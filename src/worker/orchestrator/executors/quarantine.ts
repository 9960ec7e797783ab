// Keeps work that has killed executors away from other work, so that one session's bug does not cost the others their calls.
import type { JobOrder } from '../../../calls/jobs.ts'
import { MAX_DEATHS } from '../../../session/attempts.ts'
import { doubled } from '../../../session/backoff.ts'
import { countDeaths } from './deaths.ts'
import { type Executor, takesJobs } from './executor-state.ts'
import { steadyNow } from '../../steady-clock.ts'

/** Deaths after which work is a suspect. One death says little, because everything that shared the process died with it. */
const SUSPECT_AFTER = 2
/** How long an executor is kept for suspects after the last one: longer than the pauses between a call's attempts. */
const KEPT_MS = 90_000
/**
 * How long a suspect that has itself died as a suspect waits after the death of any suspect. The pause doubles with each of its own deaths:
 * replacing an executor takes a third of a second of CPU time, which slows healthy sessions. Only its own deaths count, because if
 * something else kills processes at random, the deaths of others say nothing about it.
 */
const PAUSE_MS = 125
const LONGEST_PAUSE_MS = 15_000
/**
 * How long a suspect waits before it joins suspects that are running. Its two or three deaths may be chance, and a healthy body may run for
 * minutes. If it is the cause, joining costs each of the others one death.
 */
const WAIT_MS = 1_000
/**
 * The wait if the suspect's next death could be the last for its call, or if one of the running suspects has had that additional death. The
 * wait counts towards its activity's time limit, which has room for a frozen worker.
 */
const LONGEST_WAIT_MS = 10_000
/** How long a replacement for the executor for suspects may take to start before suspects use another executor that is empty. */
const SUCCESSOR_WITHIN_MS = 10_000
/** How long a suspect may take to be assigned once its turn has come. */
const ENTERS_WITHIN_MS = 1_000
/** How long a job waits for an executor that accepts jobs before its call counts as not begun. */
const NO_EXECUTOR_MS = 1_000
/** How long it waits if executors accept jobs, but not this one. */
const NO_ROOM_MS = 11_000

export interface QuarantineNeeds {
  /** How many executors the worker keeps. With only one, work cannot be kept apart. */
  size: number
  /** The executors that accept jobs. */
  takers(): Executor[]
}

/** Decides which executors work may run on, and when. */
export interface Quarantine {
  /** The executors that the order may run on now. A suspect never shares an executor with other work. */
  allowed(order: JobOrder): Executor[]
  /**
   * Resolves to true as soon as there is one, or to false if there is none after a while or the job is stopped. Suspects also take turns.
   */
  turn(order: JobOrder, stopped: AbortSignal): Promise<boolean>
  /**
   * Tools that have killed executors, in the order's session or in any. They must run in jobs of their own, because only jobs can be
   * isolated.
   */
  heldBack(order: JobOrder): string[]
  /** The order has been assigned to the executor. */
  assigned(order: JobOrder, executor: Executor): void
  /** An executor was connected. */
  connected(executor: Executor): void
  /** An executor died, and one of `guilty` may be the cause. */
  died(executor: Executor, guilty: readonly JobOrder[]): void
  /** A job has left its executor. `hasRun`: its own code has run and ended. */
  ended(order: JobOrder, hasRun: boolean): void
}

/** Work that waits for an executor. */
interface WaitingJob {
  order: JobOrder
  since: number
  /** Since when it has needed nothing but an executor. */
  readySince?: number | undefined
  /** Makes the job check whether its turn has come. */
  look(): void
}

export function startQuarantine({ size, takers }: QuarantineNeeds): Quarantine {
  const deaths = countDeaths()
  const waiting: WaitingJob[] = []
  let kept: { place: Executor | undefined; vacantSince: number; until: number } | undefined
  let lastDeathAt = Number.NEGATIVE_INFINITY
  /** Until this time, a suspect is about to enter and no other suspect gets its turn. */
  let enteringUntil = 0

  const isSuspect = (order: JobOrder): boolean => deaths.of(order) >= SUSPECT_AFTER
  const suspectsOn = (executor: Executor): JobOrder[] => ordersOn(executor).filter(isSuspect)
  const hasOtherWork = (executor: Executor): boolean => ordersOn(executor).some((order) => !isSuspect(order))

  /** The suspect with the fewest deaths goes first, because it may only have shared an executor with another suspect. */
  function next(): WaitingJob | undefined {
    return waiting.filter(({ order }) => isSuspect(order)).toSorted((one, other) => deaths.of(one.order) - deaths.of(other.order))[0]
  }

  function wake(): void {
    for (const one of [...waiting]) one.look()
  }

  /** The executor for suspects, as long as one is kept. `place` is undefined while its replacement starts. */
  function keeping(): typeof kept {
    if (kept && steadyNow() >= kept.until && !next() && !(kept.place && suspectsOn(kept.place).length > 0)) kept = undefined
    if (kept?.place && !takesJobs(kept.place)) vacate(kept)
    return kept
  }

  function keep(place: Executor | undefined): void {
    const now = steadyNow()
    kept = { place, vacantSince: place ? 0 : now, until: now + KEPT_MS }
  }

  function vacate(place: NonNullable<typeof kept>): void {
    place.place = undefined
    place.vacantSince = steadyNow()
  }

  /** Until when a replacement is expected. */
  function successorUntil(): number {
    const now = keeping()
    return now && !now.place ? now.vacantSince + SUCCESSOR_WITHIN_MS : 0
  }

  /** The suspects that run on the executor for suspects. */
  function running(): JobOrder[] {
    const place = keeping()?.place
    return place ? suspectsOn(place) : []
  }

  function isFree(): boolean {
    const now = keeping()
    return !now || (now.place !== undefined && running().length === 0)
  }

  /** When the suspect has waited long enough to join those that run. */
  function joinsAt({ order, since }: WaitingJob): number {
    const isTooRisky = deaths.of(order) >= MAX_DEATHS - 1 || running().some((one) => deaths.of(one) > SUSPECT_AFTER)
    return since + (isTooRisky ? LONGEST_WAIT_MS : WAIT_MS)
  }

  /** When the pauses end that delay the suspect's turn. */
  function closedUntil({ order }: WaitingJob): number {
    const deathsAsSuspect = deaths.of(order) - SUSPECT_AFTER
    const pause = deathsAsSuspect > 0 ? Math.min(doubled(PAUSE_MS, deathsAsSuspect - 1), LONGEST_PAUSE_MS) : 0
    return Math.max(enteringUntil, lastDeathAt + pause)
  }

  /** Whether the work needs nothing but an executor. */
  function isReady(one: WaitingJob, now: number): boolean {
    if (!isSuspect(one.order)) return true
    if (now < closedUntil(one)) return false
    // Suspects that have waited long enough enter together, but they wait for a replacement that is about to start.
    return (isFree() && next() === one) || now >= Math.max(joinsAt(one), successorUntil())
  }

  function allowed(order: JobOrder): Executor[] {
    const candidates = takers()
    if (size < 2) return candidates
    return isSuspect(order) ? forSuspects(candidates) : forOthers(candidates)
  }

  function forSuspects(candidates: Executor[]): Executor[] {
    const place = keeping()?.place
    const empty = candidates.filter((one) => !hasOtherWork(one))
    if (place) return empty.filter((one) => one === place)
    return empty.toSorted(byWork).slice(0, 1)
  }

  function forOthers(candidates: Executor[]): Executor[] {
    if (!kept && deaths.isEmpty()) return candidates
    const place = keeping()?.place
    const others = candidates.filter((one) => one !== place)
    // Work that was already running when it became suspect stays where it is.
    const safe = others.filter((one) => suspectsOn(one).length === 0)
    if (safe.some(responds)) return safe
    const isLent = place && responds(place) && suspectsOn(place).length === 0 && steadyNow() >= enteringUntil
    return isLent ? [place] : others
  }

  /**
   * If no executor is kept for suspects and none is empty, reserves one, which gets no other work from then on. The only executor is never
   * reserved.
   */
  function reserve(): void {
    if (size < 2 || keeping()?.place) return
    const candidates = takers().filter(responds)
    if (candidates.length >= 2) keep(candidates.toSorted(byWork)[0])
  }

  function mayEnter(one: WaitingJob, now: number): boolean {
    if (!isReady(one, now)) {
      one.readySince = undefined
      return false
    }
    one.readySince ??= now
    if (isSuspect(one.order) && allowed(one.order).length === 0) reserve()
    return allowed(one.order).length > 0
  }

  /** When the work stops waiting for an executor. */
  function waitsUntil({ readySince = Number.POSITIVE_INFINITY }: WaitingJob): number {
    return readySince + (takers().length === 0 ? NO_EXECUTOR_MS : NO_ROOM_MS)
  }

  async function inTurn(me: WaitingJob, stopped: AbortSignal): Promise<boolean> {
    const look = (): void => me.look()
    stopped.addEventListener('abort', look)
    waiting.push(me)
    try {
      for (let now = steadyNow(); !mayEnter(me, now); now = steadyNow()) {
        if (stopped.aborted || now >= waitsUntil(me)) return false
        await change(me, now)
      }
      if (isSuspect(me.order)) enteringUntil = steadyNow() + ENTERS_WITHIN_MS
      return true
    } finally {
      stopped.removeEventListener('abort', look)
      waiting.splice(waiting.indexOf(me), 1)
      wake()
    }
  }

  function change(me: WaitingJob, now: number): Promise<void> {
    const times = [closedUntil(me), joinsAt(me), successorUntil(), waitsUntil(me)]
    return new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.min(...times.filter((at) => at > now)) - now)
      me.look = () => (clearTimeout(timer), resolve())
    })
  }

  return {
    allowed,
    async turn(order, stopped) {
      if (!isSuspect(order) && allowed(order).length > 0) return true
      return inTurn({ order, since: steadyNow(), look: () => undefined }, stopped)
    },
    heldBack: ({ ticket }) => (deaths.isEmpty() ? [] : deaths.toolsOf(ticket.sessionId)),
    assigned(order, executor) {
      if (!isSuspect(order)) {
        // The executor was on loan. The next executor to start is kept instead.
        if (kept?.place === executor) vacate(kept)
        return
      }
      // From now on, its assignment decides when the next suspect may enter.
      enteringUntil = 0
      if (size >= 2) keep(executor)
      wake()
    },
    connected(executor) {
      const now = keeping()
      if (now && !now.place) now.place = executor
      wake()
    },
    died(executor, guilty) {
      if (guilty.some(isSuspect)) lastDeathAt = steadyNow()
      deaths.count(guilty)
      if (kept?.place === executor) vacate(kept)
      // The replacement is kept for suspects, so that the next attempt finds it empty.
      else if (!keeping() && guilty.some(isSuspect)) keep(undefined)
      wake()
    },
    ended(order, hasRun) {
      if (hasRun) deaths.forgive(order)
      wake()
    },
  }
}

const ordersOn = ({ assignments }: Executor): JobOrder[] => [...assignments.values()].map(({ order }) => order)

const responds = ({ isSilent }: Executor): boolean => !isSilent

const byWork = (one: Executor, other: Executor): number =>
  Number(one.isSilent) - Number(other.isSilent) || one.assignments.size - other.assignments.size
