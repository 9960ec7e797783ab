// When a follower of a session reads the store, and when it queries the workflow.
import type { Client } from '@temporalio/client'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { followBatches } from '../../../src/client/session/follow.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { StoreError } from '../../../src/store/errors.ts'
import type { Store, NotificationKind } from '../../../src/store/store.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const eventAt = (seq: number): SessionEvent => ({ v: 1, seq, at: 0, type: 'turn_started', run: 1, turn: seq, takes: [] })

/** A follower of a store, with or without notifications of other sessions, and of a workflow that has nothing to add. */
function following({ isTalking, isAway = false, which }: { isTalking: boolean; isAway?: boolean; which?: NotificationKind }) {
  const stored: SessionEvent[] = []
  const counts = { reads: 0, queries: 0 }
  let watched: NotificationKind | undefined
  let ring = (): void => undefined
  const store: Pick<Store, 'events' | 'watch' | 'hasHeardWithin'> = {
    async events(_id, { after = 0 } = {}) {
      counts.reads += 1
      if (isAway) throw new StoreError('store_unavailable', 'Postgres is unavailable.')
      return stored.filter(({ seq }) => seq > after)
    },
    watch(_id, wake, what) {
      watched = what
      ring = wake
      return () => undefined
    },
    hasHeardWithin: () => isTalking,
  }
  const client = {
    withDeadline: (_until: number, work: () => unknown) => work(),
    workflow: {
      getHandle: () => ({
        async query() {
          counts.queries += 1
          return { epoch: 'e', executionId: 'e', base: { seq: 0 }, to: { seq: 0 }, events: [], more: false }
        },
      }),
    },
  }
  const stop = new AbortController()
  const seen: number[] = []
  const source = {
    sessionId: 's',
    client: client as unknown as Client,
    store: store as Store,
    closed: new AbortController().signal,
    seen: { seq: 0 },
  }
  const ended = (async () => {
    for await (const batch of followBatches(source, 0, stop.signal, which)) seen.push(...batch.map(({ seq }) => seq))
  })()
  return {
    counts,
    seen,
    watched: () => watched,
    store(event: SessionEvent) {
      stored.push(event)
      ring()
    },
    async end() {
      stop.abort()
      await ended
    },
  }
}

describe('a follower', () => {
  it('a follower does not query a silent session’s workflow because of other sessions’ notifications, and rarely polls', async () => {
    const { counts, end } = following({ isTalking: true })
    await vi.advanceTimersByTimeAsync(9_500)
    expect(counts).toEqual({ reads: 2, queries: 0 })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(counts.queries).toBe(1)
    await end()
  })

  it('a follower queries the workflow after two seconds if nothing arrives from the store, and polls every second', async () => {
    const { counts, end } = following({ isTalking: false })
    await vi.advanceTimersByTimeAsync(1_900)
    expect(counts).toEqual({ reads: 2, queries: 0 })
    await vi.advanceTimersByTimeAsync(200)
    expect(counts.queries).toBe(1)
    await end()
  })

  it('a follower counts the two seconds from the last event, not from the last query', async () => {
    const { counts, seen, store, end } = following({ isTalking: false })
    for (let seq = 1; seq <= 5; seq++) {
      await vi.advanceTimersByTimeAsync(1_500)
      store(eventAt(seq))
      await vi.advanceTimersByTimeAsync(0)
    }
    expect(seen).toEqual([1, 2, 3, 4, 5])
    expect(counts.queries).toBe(0)
    await end()
  })

  it('a follower whose store is unreachable queries a silent workflow less often after a while', async () => {
    const { counts, end } = following({ isTalking: false, isAway: true })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(counts.queries).toBe(2)
    await vi.advanceTimersByTimeAsync(20_000)
    expect(counts.queries).toBeLessThanOrEqual(17)
    await end()
  })

  it('a follower that only needs news is woken by the store only for news', async () => {
    const { watched, end } = following({ isTalking: true, which: 'news' })
    await vi.advanceTimersByTimeAsync(0)
    expect(watched()).toBe('news')
    await end()
  })
})
