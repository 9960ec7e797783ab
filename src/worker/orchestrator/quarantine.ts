// Keeps work that has killed executors away from other work, so that one session's bug does not cost the others their calls.
import { LRUCache } from 'lru-cache'
import type { JobOrder } from '../../jobs/contract.ts'
import { doubled } from '../../session/backoff.ts'
import { type Executor, takesJobs } from './executors.ts'

/** Deaths after which a tool of a session, or its model, is a suspect. One death says little: whatever shared the process died with it. */
const SUSPECT_AFTER = 2
/** How long a death is remembered: longer than the pauses between automatic recoveries. */
const REMEMBERED_MS = 15 * 60_000
const MAX_REMEMBERED = 1_000
/** How long an executor is kept for suspects after the last one: longer than the pauses between a call's attempts. */
const KEPT_MS = 90_000
/** The pause after a suspect's death, doubled with each in a row: to replace an executor takes a third of a second of CPU. */
const PAUSE_MS = 125
const LONGEST_PAUSE_MS = 2_000
/** How long a suspect waits for its turn. The time counts for its activity, whose limit has room for a standstill of the worker. */
const LONGEST_WAIT_MS = 10_000
/** From a suspect's turn to its job. */
const ENTERS_WITHIN_MS = 1_000

/** What the quarantine knows. */
export interface Quarantine {
  /** Of the executors that accept jobs, those that the order may run on; at least one of them. */
  narrow(order: JobOrder, candidates: Executor[]): Executor[]
  /** Resolves at once for work that is no suspect; a suspect waits for its turn, but not for long. */
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
  deaths: number
  /** Makes it look whether its turn has come. */
  look(): void
}

/** Starts one. A worker with one executor has nowhere to keep anything. */
export function startQuarantine(): Quarantine {
  const deaths = new LRUCache<string, number>({ max: MAX_REMEMBERED, ttl: REMEMBERED_MS })
  const waiting: Waiting[] = []
  let kept: { place: Executor | undefined; until: number } | undefined
  let deathsInARow = 0
  /** No suspect gets its turn before. */
  let closedUntil = 0

  const deathsOf = (order: JobOrder): number => deaths.get(whatRuns(order)) ?? 0
  const isSuspect = (order: JobOrder): boolean => deathsOf(order) >= SUSPECT_AFTER

  /** The suspect with the fewest deaths goes first: it may only have been beside another one. */
  function next(): Waiting | undefined {
    return waiting.toSorted((one, other) => one.deaths - other.deaths)[0]
  }

  function wake(): void {
    next()?.look()
  }

  /** The executor for suspects, while one is kept; `place` is undefined while its successor starts. */
  function keeping(): typeof kept {
    if (kept && Date.now() >= kept.until) kept = undefined
    if (kept?.place && !takesJobs(kept.place)) kept.place = undefined
    return kept
  }

  function isFree(): boolean {
    if (Date.now() < closedUntil) return false
    const now = keeping()
    if (!now) return true
    return now.place !== undefined && ![...now.place.assignments.values()].some(({ order }) => isSuspect(order))
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
      closedUntil = 0
      wake()
      if (candidates.length < 2) return candidates
      const chosen = place && candidates.includes(place) ? place : leastBusy(candidates)
      kept = { place: chosen, until: Date.now() + KEPT_MS }
      return [chosen]
    },
    async turn(order) {
      if (isSuspect(order)) await inTurn(deathsOf(order))
    },
    connected(executor) {
      const now = keeping()
      if (now && !now.place) now.place = executor
      wake()
    },
    died(executor, guilty) {
      if (guilty.some(isSuspect)) closedUntil = Date.now() + Math.min(doubled(PAUSE_MS, deathsInARow++), LONGEST_PAUSE_MS)
      for (const order of guilty) deaths.set(whatRuns(order), deathsOf(order) + 1)
      if (kept?.place === executor) kept.place = undefined
      // Its successor is kept, so that the next attempt finds it empty.
      else if (!keeping() && guilty.some(isSuspect)) kept = { place: undefined, until: Date.now() + KEPT_MS }
      wake()
    },
    ended(order, isDone) {
      // It was not the cause, or no longer is.
      if (isDone && deaths.delete(whatRuns(order))) deathsInARow = 0
      wake()
    },
  }

  async function inTurn(deathsSoFar: number): Promise<void> {
    const giveUpAt = Date.now() + LONGEST_WAIT_MS
    const me: Waiting = { deaths: deathsSoFar, look: () => undefined }
    waiting.push(me)
    while ((next() !== me || !isFree()) && Date.now() < giveUpAt) {
      const until = next() === me && closedUntil > Date.now() ? Math.min(closedUntil, giveUpAt) : giveUpAt
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, until - Date.now())
        me.look = () => (clearTimeout(timer), resolve())
      })
    }
    waiting.splice(waiting.indexOf(me), 1)
    closedUntil = Math.max(closedUntil, Date.now() + ENTERS_WITHIN_MS)
    wake()
  }
}

/** The code that a job runs, as far as a session goes: a call that is made again has another id. */
function whatRuns({ kind, ticket: { sessionId, tool = '' } }: JobOrder): string {
  return `${sessionId} ${kind} ${tool}`
}

function leastBusy(candidates: readonly Executor[]): Executor {
  return candidates.reduce((best, one) => (one.assignments.size < best.assignments.size ? one : best))
}
