// A sample that repeats for the same seed.
import { seededRandom } from '../retail/random.ts'

/** Draws `count` of them by the seed, and keeps their order. */
export function draw<T>(seed: number, all: readonly T[], count: number): T[] {
  const random = seededRandom(seed)
  const chances = all.map((one, at) => ({ one, at, chance: random() }))
  const drawn = chances.toSorted((a, b) => a.chance - b.chance).slice(0, count)
  return drawn.toSorted((a, b) => a.at - b.at).map(({ one }) => one)
}
