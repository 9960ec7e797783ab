// The shop's latency: seeded milliseconds before and after the work, and a hold that stops requests before their answer.
import { EventEmitter, once } from 'node:events'
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
  /** The waits of a request: 20 to 120 ms together. */
  next(requestId: string | null): Waits
  /** Stops every request at one of its two waits until `release`, except those whose X-Request-Id begins with one of `except`. */
  hold(except: readonly string[]): void
  release(): void
}

/** A pace whose numbers come from the seed. */
export function createPace(seed: number): Pace {
  const random = randomFrom(seed, 'shop latency')
  const changes = new EventEmitter().setMaxListeners(0)
  let held: readonly string[] | undefined

  const passes = (requestId: string | null): boolean => !held || held.some((prefix) => requestId?.startsWith(prefix))
  const change = (now: readonly string[] | undefined): void => {
    held = now
    changes.emit('change')
  }
  return {
    next(requestId) {
      const total = integer(random, 20, 120)
      const before = Math.round(total * random())
      // Two in three held requests have already had their effect: the moment that hurts most
      const stop = random() < 1 / 3 ? 'before' : 'after'
      const wait = (ms: number, place: 'before' | 'after') => async () => {
        await sleep(ms)
        while (stop === place && !passes(requestId)) await once(changes, 'change')
      }
      return { before: wait(before, 'before'), after: wait(total - before, 'after') }
    },
    hold: (except) => change(except),
    release: () => change(undefined),
  }
}
