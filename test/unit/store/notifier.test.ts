// What is sent to watchers, and how often.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { bellOf, newsBellOf, bellsIn, notifierOn } from '../../../src/store/postgres/notifier.ts'
import { schemaOf } from '../../../src/store/postgres/schema.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** A notifier over a Postgres that answers when `answers` resolves; `sent` has the bells of each notification. */
function notifying(answers: () => Promise<void> = () => Promise.resolve()) {
  const sent: string[][] = []
  const database = {
    async query(_text: string, [channel, payload]: readonly unknown[] = []) {
      expect(channel).toBe('pawl_pawl')
      expect(Buffer.byteLength(String(payload))).toBeLessThan(8_000)
      await answers()
      sent.push(bellsIn(String(payload)))
      return []
    },
  }
  return { sent, ...notifierOn(database, schemaOf('pawl').channel, undefined) }
}

const bells = (...keys: string[]) => keys.map(bellOf)

describe('notifications', () => {
  it('notifications go out at once, then at most every 50 ms, with each session once', async () => {
    const { sent, ring, close } = notifying()
    ring('a', false)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toEqual([bells('a')])
    for (const key of ['b', 'c', 'b', 'b']) ring(key, false)
    await vi.advanceTimersByTimeAsync(40)
    expect(sent).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(10)
    expect(sent.slice(1)).toEqual([bells('b', 'c')])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sent).toHaveLength(2)
    ring('d', false)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent.slice(2)).toEqual([bells('d')])
    await close()
  })

  it('notifications about more than steps also wake clients that wait for outcomes', async () => {
    const { sent, ring, close } = notifying()
    ring('a', true)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toEqual([[bellOf('a'), newsBellOf('a')]])
    expect(newsBellOf('a')).not.toBe(bellOf('a'))
    await close()
  })

  it('notifications name as many sessions as there are, in payloads that Postgres accepts', async () => {
    const { sent, ring, close } = notifying()
    const keys = Array.from({ length: 2_000 }, (_, index) => `session-${index}-${'x'.repeat(100)}`)
    for (const key of keys) ring(key, false)
    await vi.advanceTimersByTimeAsync(100)
    expect(sent.flat().toSorted()).toEqual(bells(...keys).toSorted())
    expect(sent.length).toBeLessThan(10)
    await close()
  })

  it('notifications that cannot be sent are dropped, and later ones are sent', async () => {
    let failures = 1
    const { sent, ring, close } = notifying(() => (failures-- > 0 ? Promise.reject(new Error('away')) : Promise.resolve()))
    ring('a', false)
    await vi.advanceTimersByTimeAsync(0)
    ring('b', false)
    await vi.advanceTimersByTimeAsync(100)
    expect(sent).toEqual([bells('b')])
    await close()
  })

  it('notifications are sent before the notifier closes', async () => {
    const { sent, ring, close } = notifying()
    ring('a', false)
    await vi.advanceTimersByTimeAsync(0)
    ring('b', false)
    await close()
    expect(sent).toEqual([bells('a'), bells('b')])
  })

  it('notifications that Postgres does not answer hold up neither a flush nor the close', async () => {
    const { ring, close } = notifying(() => new Promise(() => undefined))
    expect(ring('a', false)).toBeUndefined()
    const closed = close()
    await vi.advanceTimersByTimeAsync(1_000)
    await closed
  })
})
