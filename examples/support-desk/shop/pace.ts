// How long the shop takes: seeded milliseconds before and after the work, and a hold for whoever wants to look at it in the act.
import { setTimeout as sleep } from 'node:timers/promises'
import { integer, randomFrom } from '../world/random.ts'

/** The two waits of one request. */
export interface Waits {
  /** Before the effect. */
  before(): Promise<void>
  /** After the effect and before the answer. */
  after(): Promise<void>
}

/** The shop's pace. */
export interface Pace {
  /** The waits of the next request: 20 to 120 ms together. */
  next(): Waits
  /** From now on every request stops at one of its two waits, until `release`. */
  hold(): void
  release(): void
}

/** A pace whose numbers come from the seed. */
export function createPace(seed: number): Pace {
  const random = randomFrom(seed, 'shop latency')
  let released: Promise<void> | undefined
  let open: () => void = () => {}
  return {
    next() {
      const total = integer(random, 20, 120)
      const before = Math.round(total * random())
      // Two of three requests that are held have had their effect already: the moment that hurts most
      const stop = random() < 1 / 3 ? 'before' : 'after'
      const wait = (ms: number, place: 'before' | 'after') => async () => {
        await sleep(ms)
        if (stop === place) await released
      }
      return { before: wait(before, 'before'), after: wait(total - before, 'after') }
    },
    hold() {
      released ??= new Promise((resolve) => {
        open = resolve
      })
    },
    release() {
      open()
      released = undefined
    },
  }
}
