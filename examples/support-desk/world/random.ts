// Randomness from a seed: the same seed and purpose always give the same numbers.
import { createHash } from 'node:crypto'

/** A source of numbers in [0, 1). */
export type Random = () => number

/** The numbers for one purpose; different purposes of one seed are independent of each other. */
export function randomFrom(seed: number, purpose: string): Random {
  let state = createHash('sha256').update(`${seed}/${purpose}`).digest().readUInt32LE()
  // mulberry32: 32 bits of state are plenty for a demo's data and moments
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** An integer from `low` to `high`, both included. */
export function integer(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1))
}

/** One of `items`. */
export function pick<T>(random: Random, items: readonly [T, ...T[]] | readonly T[]): T {
  const item = items[Math.floor(random() * items.length)]
  if (item === undefined) throw new RangeError('pick needs at least one item: give it a list that is not empty.')
  return item
}

/** A new array with the items in another order. */
export function shuffled<T>(random: Random, items: readonly T[]): T[] {
  const out = [...items]
  for (let i = out.length - 1; i > 0; i--) {
    const j = integer(random, 0, i)
    const held = out[i] as T
    out[i] = out[j] as T
    out[j] = held
  }
  return out
}
