// When events are flushed after a nudge, and what the store learns about failed flushes when it accepts the events.
import type { ReadTarget } from '../../../src/calls/reads.ts'
import type { Client } from '@temporalio/client'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startFlusher } from '../../../src/activities/flusher.ts'
import type { SessionReader } from '../../../src/activities/session-reader.ts'
import type { LogEntry, Watermark } from '../../../src/session/events.ts'
import { StoreError } from '../../../src/store/errors.ts'
import type { Store } from '../../../src/store/store.ts'

const target = { sessionId: 's', epoch: 'e', executionId: 'x', watermark: { seq: 1, digest: 'd' } }
const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** A reader that returns these parts for a target. */
function readerOf(partsOf: (target: ReadTarget, from: Watermark) => LogEntry[][]): SessionReader {
  async function* parts(target: ReadTarget, from: Watermark): AsyncGenerator<LogEntry[]> {
    yield* partsOf(target, from)
  }
  return { parts } as Partial<SessionReader> as SessionReader
}

/** A flusher whose store fails once, after it has called `meanwhile`. `asked` has the options of each flush that the store received. */
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
  const reader = readerOf(() => [[]])
  const flusher = startFlusher(store, reader, silent)
  return { asked, flush: () => flusher.flush(target, {} as Client) }
}

describe('a flush that fails', () => {
  it('a failed flush is recorded as the reason why the next one is late', async () => {
    const { asked, flush } = failingOnce(() => undefined)
    await expect(flush()).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(await flush()).toBe(1)
    expect(asked).toMatchObject([{}, { late: { code: 'store_unavailable', attempts: 1 } }])
  })

  it('a flush that fails is retried, and nothing counts as late, if this process was frozen', async () => {
    const { asked, flush } = failingOnce(() => {
      const until = Date.now() + 1_500
      while (Date.now() < until);
    })
    expect(await flush()).toBe(1)
    expect(asked).toEqual([{ executionId: 'x' }, { executionId: 'x' }])
  })
})

describe('failed flushes', () => {
  /** The sessions that are logged when the store fails like this. */
  async function loggedOf(failures: readonly { session: string; code?: string }[]): Promise<string[]> {
    const logged: string[] = []
    let failure: (typeof failures)[number] | undefined
    const store = {
      head: () => Promise.resolve(null),
      async flush(_session: string, epoch: string) {
        if (failure?.code !== undefined) throw new StoreError(failure.code, 'no')
        return { seq: 1, digest: 'd', epoch }
      },
    } as Partial<Store> as Store
    const logger = { ...silent, warn: (fields: object) => void logged.push((fields as { session: string }).session) }
    const flusher = startFlusher(
      store,
      readerOf(() => [[]]),
      logger,
    )
    for (failure of failures) {
      const { session: sessionId } = failure
      await flusher.flush({ ...target, sessionId }, {} as Client).catch(() => undefined)
    }
    return logged
  }
  const away = (session: string) => ({ session, code: 'store_unavailable' })
  const wrong = (session: string) => ({ session, code: 'gap' })

  it('failed flushes during an outage are logged once, until a flush succeeds', async () => {
    expect(await loggedOf([away('a'), away('b'), away('a'), { session: 'c' }, away('b')])).toEqual(['a', 'b'])
  })

  it('failed flushes that concern one session are logged once per session', async () => {
    expect(await loggedOf([wrong('a'), wrong('b'), wrong('a'), { session: 'c' }, wrong('b')])).toEqual(['a', 'b'])
  })
})

describe('a backlog', () => {
  const TEN = Array.from({ length: 10 }, (_, index) => [{ seq: index + 1, prev: '', digest: `d${index + 1}`, json: '{}' }])
  const backlog = { ...target, watermark: { seq: 10, digest: 'd10' } }

  /** A flusher over a store that calls `before` before each of its transactions. */
  function flushing(before: (seq: number) => void | Promise<void>) {
    let stored = { epoch: 'e', seq: 0, digest: '' }
    const store = {
      head: () => Promise.resolve(stored),
      async flush(_session: string, epoch: string, [entry]: LogEntry[]) {
        const { seq, digest } = entry ?? expect.fail()
        await before(seq)
        stored = { epoch, seq, digest }
        return stored
      },
    } as unknown as Store
    const reader = readerOf((_target, from) => TEN.slice(from.seq))
    const flusher = startFlusher(store, reader, silent)
    return { flush: (withinMs?: number) => flusher.flush(backlog, {} as Client, withinMs), stored: () => stored.seq }
  }

  it('a backlog resumes after the last stored part, no matter how the flush ended', async () => {
    let cut = 4
    const { flush, stored } = flushing((seq) => {
      if (seq === cut) throw new StoreError('store_unavailable', 'gone')
    })
    await expect(flush()).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(stored()).toBe(3)
    cut = 8
    await expect(flush()).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(stored()).toBe(7)
    cut = 0
    expect(await flush()).toBe(10)
  })

  it('a backlog is flushed as far as time allows, but at least one part of it', async () => {
    const { flush } = flushing(() => new Promise((resolve) => setTimeout(resolve, 30)))
    const first = await flush(50)
    expect(first).toBeGreaterThan(0)
    expect(first).toBeLessThan(10)
    expect(await flush(0)).toBe(first + 1)
    expect(await flush()).toBe(10)
  })
})

describe('nudges', () => {
  afterEach(() => void vi.useRealTimers())

  /** A flusher whose clock moves only when a test advances it. `flushed` has the event up to which each flush wrote the store. */
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
    const reader = readerOf(({ watermark }) => {
      head = watermark.seq
      return [[]]
    })
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

  it('nudges of turns in quick succession share a flush, up to the newest', async () => {
    const { flushed, nudge, flusher } = nudged()
    for (const seq of [1, 2, 3, 4]) await nudge(seq, 12)
    expect(flushed).toEqual([1])
    await vi.advanceTimersByTimeAsync(50)
    expect(flushed).toEqual([1, 4])
    await vi.advanceTimersByTimeAsync(50)
    await flusher.idle()
  })

  it('nudges of slow turns each cause a flush at once', async () => {
    const { flushed, nudge, flusher } = nudged()
    for (const seq of [1, 2, 3]) await nudge(seq, 30)
    expect(flushed).toEqual([1, 2, 3])
    await vi.advanceTimersByTimeAsync(50)
    await flusher.idle()
  })
})
