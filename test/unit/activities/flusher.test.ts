// Flushes that fail: what the store is told of it when it takes the events in.
import type { Client } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
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
    expect(asked).toEqual([{}, {}])
  })
})
