// When events are flushed that somebody nudged about, and what the store is told of flushes that failed when it takes the events in.
import type { Client } from '@temporalio/client'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startFlusher } from '../../../src/activities/flusher.ts'
import type { SessionReader } from '../../../src/activities/session-reader.ts'
import { StoreError } from '../../../src/store/errors.ts'
import type { Store } from '../../../src/store/store.ts'

const target = { sessionId: 's', epoch: 'e', executionId: 'x', watermark: { seq: 1, digest: 'd' } }
const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** A flusher whose store fails once, after what `meanwhile` does; gives how each flush that it was asked for was described. */
function failingOnce(meanwhile: () => void) {
  const asked: unknown[] = []
  const store = {
    head: () => Promise.resolve(null),
    async flush(_session: string, epoch: string, _entries: unknown, options: unknown) {
      asked.push(options)
      if (asked.length > 1) return { seq: 1, digest: 'd', epoch }
      await Promise.resolve()
      meanwhile()
      throw new StoreError('store_unavailable', 'timeout')
    },
  } as unknown as Store
  const reader = { entries: () => Promise.resolve([]) } as unknown as SessionReader
  const flusher = startFlusher(store, reader, silent)
  return { asked, flush: () => flusher.flush(target, {} as Client) }
}

describe('a flush that fails', () => {
  it('is the reason why the next one is late', async () => {
    const { asked, flush } = failingOnce(() => undefined)
    await expect(flush()).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(await flush()).toBe(1)
    expect(asked).toMatchObject([{}, { late: { code: 'store_unavailable', attempts: 1 } }])
  })

  it('is tried again and nothing is late, when it was this process that stood still', async () => {
    const { asked, flush } = failingOnce(() => {
      const until = Date.now() + 1_500
      while (Date.now() < until);
    })
    expect(await flush()).toBe(1)
    expect(asked.map((options) => 'late' in options)).toEqual([false, false])
  })
})

describe('nudges', () => {
  afterEach(() => void vi.useRealTimers())

  /** A flusher whose clock stands still unless it is advanced; `flushed` are the events up to which the store was written. */
  function nudged() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
    const flushed: number[] = []
    let head = 0
    const store = {
      head: () => Promise.resolve(null),
      flush: (_session: string, epoch: string, _entries: unknown) => {
        flushed.push(head)
        return Promise.resolve({ seq: head, digest: 'd', epoch })
      },
    } as unknown as Store
    const reader = {
      entries: ({ watermark }: { watermark: { seq: number } }) => {
        head = watermark.seq
        return Promise.resolve([])
      },
    } as unknown as SessionReader
    const flusher = startFlusher(store, reader, silent)
    const nudge = (seq: number, afterMs: number) => {
      const after = vi.advanceTimersByTimeAsync(afterMs)
      return after.then(async () => {
        flusher.nudge({ ...target, watermark: { seq, digest: 'd' } }, {} as Client)
        await vi.advanceTimersByTimeAsync(0)
      })
    }
    return { flushed, nudge, flusher }
  }

  it('of turns that follow one another fast share a flush, up to the newest', async () => {
    const { flushed, nudge, flusher } = nudged()
    for (const seq of [1, 2, 3, 4]) await nudge(seq, 12)
    expect(flushed).toEqual([1])
    await vi.advanceTimersByTimeAsync(50)
    expect(flushed).toEqual([1, 4])
    await vi.advanceTimersByTimeAsync(50)
    await flusher.idle()
  })

  it('of slow turns are followed at once', async () => {
    const { flushed, nudge, flusher } = nudged()
    for (const seq of [1, 2, 3]) await nudge(seq, 30)
    expect(flushed).toEqual([1, 2, 3])
    await vi.advanceTimersByTimeAsync(50)
    await flusher.idle()
  })
})
