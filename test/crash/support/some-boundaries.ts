// A sample of the boundaries of a crash test, for runs that have no time for all of them.
import type { Boundary } from 'pawl/testing'
import { seededRandom } from '../../retail/random.ts'

/** Besides one boundary of each kind, the sample has one in this many of the others. */
const ONE_IN = 12

/** One boundary of each kind (before, during and after a model call, a tool call, …), and some of the others, chosen by the seed. */
export function someBoundaries(seed: number): (boundary: Boundary) => boolean {
  const random = seededRandom(seed)
  const kinds = new Set<string>()
  const chosen = new Map<string, boolean>()
  return ({ id, what, stage }) => {
    const kind = `${what} ${stage}`
    const isChosen = chosen.get(id) ?? (!kinds.has(kind) || random() * ONE_IN < 1)
    kinds.add(kind)
    chosen.set(id, isChosen)
    return isChosen
  }
}
