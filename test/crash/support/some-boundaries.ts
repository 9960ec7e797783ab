// A sample of the boundaries of a crash test, for runs that have no time for all of them.
import { seededRandom } from '../../../src/testing/crash/random.ts'
import type { Boundary } from '../../../src/testing/crash/boundaries.ts'

/** Besides one boundary of each kind, the sample has one in this many of the others. */
const ONE_IN = 12

/** What is in progress at a boundary and how far it is: `tool before`, `flush during`, …. */
export const kindOf = ({ what, stage }: Boundary): string => `${what} ${stage}`

/** All kinds of these. */
export function kindsOf(...whats: readonly Boundary['what'][]): string[] {
  return whats.flatMap((what) => ['before', 'during', 'after'].map((stage) => `${what} ${stage}`))
}

/** One boundary of each kind (default: of every kind there is), and some of the others of these kinds, chosen by the seed. */
export function someBoundaries(seed: number, among?: readonly string[]): (boundary: Boundary) => boolean {
  const random = seededRandom(seed)
  const kinds = new Set<string>()
  const chosen = new Map<string, boolean>()
  return (boundary) => {
    const kind = kindOf(boundary)
    if (among && !among.includes(kind)) return false
    const isChosen = chosen.get(boundary.id) ?? (!kinds.has(kind) || random() * ONE_IN < 1)
    kinds.add(kind)
    chosen.set(boundary.id, isChosen)
    return isChosen
  }
}
