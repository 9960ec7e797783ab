// Beats for attempts of activities: tells the server in time that they live, and hears from it which ones are to stop.
import { ActivityCancelledError, ActivityNotFoundError, type Client } from '@temporalio/client'
import type { AttemptReport } from '../activities/contract.ts'
import type { HoldOptions } from '../activities/needs.ts'

/** What a beat came back with. */
export type BeatAnswer = 'mine' | 'cancelled' | 'lost'

/** Beats for the attempts it is given. */
export interface Beater {
  hold(id: number, options: HoldOptions): void
  /** Tells the server now, and from now on. @throws what the call to the server throws. */
  report(id: number, report: AttemptReport): Promise<BeatAnswer>
  release(id: number): void
  /** What it beats for. */
  held(): IterableIterator<[number, HoldOptions]>
  stop(): void
}

interface Beating {
  options: HoldOptions
  timer: NodeJS.Timeout
  /** Beats of one attempt go one after another: an older report must not overtake a newer one. */
  last: Promise<unknown>
}

/** Starts a beater; `onStop` is told once of each attempt that is to stop. */
export function startBeater(client: Client, onStop: (id: number, why: 'cancelled' | 'lost') => void): Beater {
  const beating = new Map<number, Beating>()
  const stopped = new Set<number>()

  async function beat(id: number): Promise<BeatAnswer> {
    const one = beating.get(id)
    if (!one) return 'lost'
    const sent = one.last.catch(() => undefined).then(() => send(client, one.options))
    one.last = sent
    const answer = await sent
    if (answer !== 'mine' && beating.has(id) && !stopped.has(id)) {
      stopped.add(id)
      onStop(id, answer)
    }
    return answer
  }

  return {
    hold(id, options) {
      // Three chances to be heard before the server gives the attempt up.
      const timer = setInterval(() => void beat(id).catch(() => undefined), Math.max(200, options.heartbeatTimeoutMs / 4))
      timer.unref()
      beating.set(id, { options, timer, last: Promise.resolve() })
    },
    async report(id, report) {
      const one = beating.get(id)
      if (one) one.options = { ...one.options, report }
      return beat(id)
    },
    release(id) {
      clearInterval(beating.get(id)?.timer)
      beating.delete(id)
      stopped.delete(id)
    },
    *held() {
      for (const [id, { options }] of beating) yield [id, options]
    },
    stop() {
      for (const { timer } of beating.values()) clearInterval(timer)
      beating.clear()
    },
  }
}

async function send(client: Client, { taskToken, report }: HoldOptions): Promise<BeatAnswer> {
  try {
    await client.withDeadline(Date.now() + 5_000, () => client.activity.heartbeat(taskToken, report))
    return 'mine'
  } catch (error) {
    if (error instanceof ActivityCancelledError) return 'cancelled'
    if (error instanceof ActivityNotFoundError) return 'lost'
    // Paused or reset by an operator is no stop: only a request to cancel is one.
    if (error instanceof Error && /Paused|Reset/.test(error.name)) return 'mine'
    throw error
  }
}
