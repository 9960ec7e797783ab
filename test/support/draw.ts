// Some of many, by a seed.
import { seededRandom } from '../retail/random.ts'

/** So many of them, drawn by the seed, in their order. */
export function draw<T>(seed: number, all: readonly T[], count: number): T[] {
  const random = seededRandom(seed)
  const chances = all.map((one, at) => ({ one, at, chance: random() }))
  const drawn = chances.toSorted((a, b) => a.chance - b.chance).slice(0, count)
  return drawn.toSorted((a, b) => a.at - b.at).map(({ one }) => one)
}
