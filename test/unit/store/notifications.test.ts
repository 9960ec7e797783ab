// What is sent to watchers, and how often.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { topicOf, newsTopicOf, topicsIn, notifierOn } from '../../../src/store/postgres/notifications.ts'
import { schemaOf } from '../../../src/store/postgres/schema.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** A notifier over a Postgres that answers when `answers` resolves; `sent` has the topics of each notification. */
function notifying(answers: () => Promise<void> = () => Promise.resolve()) {
  const sent: string[][] = []
  const database = {
    async query(_text: string, [channel, payload]: readonly unknown[] = []) {
      expect(channel).toBe('pawl_pawl')
      expect(Buffer.byteLength(String(payload))).toBeLessThan(8_000)
      await answers()
      sent.push(topicsIn(String(payload)))
      return []
    },
  }
  return { sent, ...notifierOn(database, schemaOf('pawl').channel, undefined) }
}

const topics = (...keys: string[]) => keys.map(topicOf)

describe('notifications', () => {
  it('notifications go out at once, then at most every 50 ms, with each session once', async () => {
    const { sent, notify, close } = notifying()
    notify('a', false)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toEqual([topics('a')])
    for (const key of ['b', 'c', 'b', 'b']) notify(key, false)
    await vi.advanceTimersByTimeAsync(40)
    expect(sent).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(10)
    expect(sent.slice(1)).toEqual([topics('b', 'c')])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sent).toHaveLength(2)
    notify('d', false)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent.slice(2)).toEqual([topics('d')])
    await close()
  })

  it('notifications about more than steps also wake clients that wait for outcomes', async () => {
    const { sent, notify, close } = notifying()
    notify('a', true)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toEqual([[topicOf('a'), newsTopicOf('a')]])
    expect(newsTopicOf('a')).not.toBe(topicOf('a'))
    await close()
  })

  it('notifications name as many sessions as there are, in payloads that Postgres accepts', async () => {
    const { sent, notify, close } = notifying()
    const keys = Array.from({ length: 2_000 }, (_, index) => `session-${index}-${'x'.repeat(100)}`)
    for (const key of keys) notify(key, false)
    await vi.advanceTimersByTimeAsync(100)
    expect(sent.flat().toSorted()).toEqual(topics(...keys).toSorted())
    expect(sent.length).toBeLessThan(10)
    await close()
  })

  it('notifications that cannot be sent are dropped, and later ones are sent', async () => {
    let failures = 1
    const { sent, notify, close } = notifying(() => (failures-- > 0 ? Promise.reject(new Error('away')) : Promise.resolve()))
    notify('a', false)
    await vi.advanceTimersByTimeAsync(0)
    notify('b', false)
    await vi.advanceTimersByTimeAsync(100)
    expect(sent).toEqual([topics('b')])
    await close()
  })

  it('notifications are sent before the notifier closes', async () => {
    const { sent, notify, close } = notifying()
    notify('a', false)
    await vi.advanceTimersByTimeAsync(0)
    notify('b', false)
    await close()
    expect(sent).toEqual([topics('a'), topics('b')])
  })

  it('notifications that Postgres does not answer hold up neither a flush nor the close', async () => {
    const { notify, close } = notifying(() => new Promise(() => undefined))
    expect(notify('a', false)).toBeUndefined()
    const closed = close()
    await vi.advanceTimersByTimeAsync(1_000)
    await closed
  })
})
