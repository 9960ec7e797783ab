// Random numbers from a seed.

/** Draws random values: the same ones for the same seed. */
export interface Random {
  /** In [0, 1). */
  fraction(): number
  /** From `low` to `high`, inclusive. */
  integer(low: number, high: number): number
  /** One of `items`, which must not be empty. */
  pick<T>(items: readonly T[]): T
}

/** Numbers in [0, 1), the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Draws from `seed`. */
export function randomFrom(seed: number): Random {
  const fraction = seededRandom(seed)
  const integer = (low: number, high: number): number => low + Math.floor(fraction() * (high - low + 1))
  return { fraction, integer, pick: (items) => items[integer(0, items.length - 1)] as (typeof items)[number] }
}
