// The rate gates: after a provider refuses a request and asks for a wait, all of this machine's calls to that account wait. They then go
// through one at a time, slowly at first. Pure, except for the clock and the random numbers that are passed in.
import { LRUCache } from 'lru-cache'

/** The rate in calls per second when a gate opens for the first time. */
const FIRST_RATE = 5
const MIN_RATE = 0.5
/** How long the rate takes to double. */
const DOUBLES_EVERY_MS = 5_000
/** At this rate in calls per second, the gate counts as open and is forgotten. */
const OPEN_RATE = 200
/** The waits of calls that were refused together differ by up to this much, and only one of them is news. */
const SLACK_MS = 100
/**
 * A gate that is closed for longer lets one call per interval through, to see whether the provider accepts it, unless the provider itself
 * has said how long to wait.
 */
export const PROBE_EVERY_MS = 60_000
/** How many accounts are remembered. There is a limit because models may name any account. */
const MAX_GATES = 1_000

export interface RateGates {
  /**
   * The provider refused a call and wants none for `forMs`; `isHeader`: the provider's own header says so. Returns true if that is news,
   * because the gate closes for longer than before.
   */
  refused(key: string, forMs: number, isHeader: boolean): boolean
  /** The provider refused a call of another machine. */
  learn(key: string, forMs: number): void
  /**
   * A person, or a call that was accepted, opened the gate `agoMs` ago. Returns whether it was closed at that time and has not been closed
   * again since.
   */
  opened(key: string, agoMs: number): boolean
  /** Whether a call may try the closed gate now. */
  mayProbe(key: string): boolean
  /** A call tries the closed gate. */
  probed(key: string): void
  /** Milliseconds until this call may be made; 0 means now. A call that asks again keeps its slot. */
  slotFor(key: string, call: string): number
  /** The keys of the gates that are not open. */
  keys(): string[]
}

interface Gate {
  /** Since when it is closed. */
  closedAt: number
  closedUntil: number
  /** The provider's own header says how long to wait. */
  isHeader: boolean
  probedAt: number
  /** Calls per second when it opens. */
  rate: number
  /** The newest slot. */
  last: number
  places: Map<string, number>
}

/** Starts with all gates open. `now`: in milliseconds, monotonic; `random`: from 0 to 1. */
export function rateGates(now: () => number = () => performance.now(), random: () => number = Math.random): RateGates {
  const gates = new LRUCache<string, Gate>({ max: MAX_GATES })

  const rateAt = ({ closedUntil, rate }: Gate, at: number): number => rate * 2 ** (Math.max(0, at - closedUntil) / DOUBLES_EVERY_MS)

  function found(key: string): Gate | undefined {
    const gate = gates.get(key)
    if (!gate || rateAt(gate, now()) < OPEN_RATE) return gate
    gates.delete(key)
    return undefined
  }

  function close(key: string, forMs: number, { isHeader, slower }: { isHeader: boolean; slower: boolean }): boolean {
    const closedAt = now()
    const until = closedAt + forMs
    const gate = found(key)
    if (!gate) {
      const opening = { rate: FIRST_RATE, last: until, places: new Map<string, number>() }
      gates.set(key, { closedAt, closedUntil: until, isHeader, probedAt: closedAt, ...opening })
      return true
    }
    const isOpening = gate.closedUntil <= closedAt
    if (isOpening) Object.assign(gate, { closedAt, probedAt: closedAt })
    if (slower && isOpening) gate.rate = Math.max(MIN_RATE, Math.min(FIRST_RATE, rateAt(gate, now()) / 2))
    if (until <= gate.closedUntil) return false
    const isNews = until - gate.closedUntil > SLACK_MS
    gate.closedUntil = until
    gate.isHeader = isHeader
    gate.last = isNews ? until : Math.max(until, gate.last)
    if (isNews) gate.places.clear()
    return isNews
  }

  return {
    refused: (key, forMs, isHeader) => close(key, forMs, { isHeader, slower: true }),
    learn: (key, forMs) => void close(key, forMs, { isHeader: false, slower: false }),
    opened(key, agoMs) {
      const gate = found(key)
      if (!gate || gate.closedUntil <= now() || gate.closedAt > now() - agoMs) return false
      Object.assign(gate, { closedUntil: now(), last: now(), rate: FIRST_RATE })
      gate.places.clear()
      return true
    },
    mayProbe(key) {
      const gate = found(key)
      if (!gate || gate.isHeader || gate.closedUntil <= now()) return false
      return now() - gate.probedAt >= PROBE_EVERY_MS
    },
    probed(key) {
      const gate = found(key)
      if (gate) gate.probedAt = now()
    },
    slotFor(key, call) {
      const gate = found(key)
      if (!gate) return 0
      const had = gate.places.get(call)
      const at = had !== undefined && had >= gate.closedUntil ? had : nextPlace(gate)
      const waitMs = Math.max(0, at - now())
      if (waitMs > 0) gate.places.set(call, at)
      else gate.places.delete(call)
      return waitMs
    },
    keys: () => [...gates.keys()].filter((key) => found(key) !== undefined),
  }

  function nextPlace(gate: Gate): number {
    const from = Math.max(now(), gate.last)
    const gapMs = 1_000 / rateAt(gate, from)
    gate.last = from + gapMs
    // Each slot is at a random time within its gap, so that machines that wait for the same moment do not all call at once.
    return from + gapMs * random()
  }
}
