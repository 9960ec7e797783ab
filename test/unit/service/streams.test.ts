// Event streams: what a reader receives, and what happens to readers that read nothing.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { ServiceError } from '../../../src/service/errors.ts'
import { type StreamItem, type StreamSettings, type StreamSource, streamsWith } from '../../../src/service/streams.ts'
import { gate, until } from '../../support/until.ts'

const NEVER = 3_600_000
const settings: StreamSettings = {
  keepAliveMs: NEVER,
  stalledAfterMs: NEVER,
  reauthorizeMs: NEVER,
  uncheckedMs: NEVER,
  max: 10,
  maxPerCaller: 10,
}
const refused = (): Promise<never> => Promise.reject(new ServiceError('unauthorized', 401, 'No.'))

/** An endless source of numbered events. It counts those that it made, and notes whether it was stopped and its stream has ended. */
function numbers(more: Partial<StreamSource> = {}) {
  const seen = { begun: false, made: 0, stopped: false, ended: false }
  async function* endless(): AsyncGenerator<StreamItem> {
    try {
      for (;;) yield { id: String(++seen.made), event: 'event', data: { n: seen.made } }
    } finally {
      seen.stopped = true
    }
  }
  const source: StreamSource = {
    caller: 'ann',
    reauthorize: () => Promise.resolve(),
    signal: new AbortController().signal,
    ...more,
    items(signal) {
      signal.addEventListener('abort', () => void (seen.ended = true), { once: true })
      return (more.items ?? endless)(signal)
    },
  }
  return { source, seen }
}

/** A source that yields nothing and ends when it is stopped. */
function silence(more: Partial<StreamSource> = {}) {
  const { source, seen } = numbers({
    async *items(signal): AsyncGenerator<StreamItem> {
      seen.begun = true
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
      seen.stopped = true
    },
    ...more,
  })
  return { source, seen }
}

async function readSome(response: Response, has: (text: string) => boolean): Promise<string> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  let text = ''
  while (!has(text)) {
    const { done, value } = await reader.read()
    if (done) break
    text += new TextDecoder().decode(value)
  }
  reader.releaseLock()
  return text
}

describe('a stream', () => {
  it('a stream has an event for each item, with its id, and a hint about when to reconnect', async () => {
    const { source } = numbers()
    const text = await readSome(streamsWith(settings).open(source), (read) => read.includes('"n":2'))
    expect(text).toBe('retry: 2000\n: connected\n\nid: 1\nevent: event\ndata: {"n":1}\n\nid: 2\nevent: event\ndata: {"n":2}\n\n')
  })

  it('a stream forbids storing, buffering and compression on its way', () => {
    const { headers } = streamsWith(settings).open(silence().source)
    expect(headers.get('cache-control')).toBe('no-store, no-transform')
    expect(headers.get('x-accel-buffering')).toBe('no')
  })

  it('a stream produces only items that are read, and stops when it is cancelled', async () => {
    const { source, seen } = numbers()
    const streams = streamsWith(settings)
    const response = streams.open(source)
    await readSome(response, (read) => read.includes('"n":3'))
    await sleep(20)
    expect(seen.made).toBe(3)
    await response.body?.cancel()
    await until('the source was stopped', () => seen.stopped)
    expect(seen.ended).toBe(true)
  })

  it('a stream whose client disconnects while an item is being made stops its source', async () => {
    const making = gate()
    let isStopped = false
    const client = new AbortController()
    const { source } = numbers({
      signal: client.signal,
      async *items(): AsyncGenerator<StreamItem> {
        try {
          await making.pass()
          yield { event: 'event', data: {} }
        } finally {
          isStopped = true
        }
      },
    })
    const read = readSome(streamsWith(settings).open(source), () => false)
    await making.reached
    client.abort()
    await read
    making.open()
    await until('the source was stopped', () => isStopped)
  })

  it('a stream says that it is alive while nothing happens, and loses no event because of it', async () => {
    const opened = gate()
    const { source } = numbers({
      async *items(): AsyncGenerator<StreamItem> {
        await opened.pass()
        yield { event: 'status', data: 'late' }
      },
    })
    const response = streamsWith({ ...settings, keepAliveMs: 5 }).open(source)
    expect(await readSome(response, (read) => read.split(': alive').length > 3)).toContain(': alive\n\n: alive\n\n')
    opened.open()
    expect(await readSome(response, (read) => read.includes('late'))).toContain('event: status\ndata: "late"\n\n')
  })

  it('a stream ends when its source does', async () => {
    const { source, seen } = numbers({
      async *items(): AsyncGenerator<StreamItem> {
        yield { event: 'event', data: 1 }
      },
    })
    const text = await readSome(streamsWith(settings).open(source), () => false)
    expect(text.endsWith('data: 1\n\n')).toBe(true)
    expect(seen.ended).toBe(true)
  })

  it('a stream says why its source failed', async () => {
    const { source } = numbers({
      async *items(): AsyncGenerator<StreamItem> {
        throw new ServiceError('unknown_cursor', 400, 'There is none.')
      },
    })
    const text = await readSome(streamsWith(settings).open(source), () => false)
    expect(text).toContain('event: end\ndata: {"type":"urn:pawl:error:unknown_cursor"')
  })

  it('a stream ends when the client disconnects', async () => {
    const client = new AbortController()
    const { source, seen } = silence({ signal: client.signal })
    const streams = streamsWith(settings)
    const reading = readSome(streams.open(source), () => false)
    await until('the source has begun', () => seen.begun)
    client.abort()
    await reading
    expect(seen.ended).toBe(true)
    await until('the source was stopped', () => seen.stopped)
  })

  it('a stream ends when the caller may no longer read, with the reason', async () => {
    const { source, seen } = silence({ reauthorize: refused })
    const text = await readSome(streamsWith({ ...settings, reauthorizeMs: 5 }).open(source), () => false)
    expect(text).toMatch(/event: end\ndata: .*"code":"unauthorized"/)
    await until('the source was stopped', () => seen.stopped)
  })

  it.each([
    ['a failure', () => Promise.reject(new Error('the store is away'))],
    ['a limit', () => Promise.reject(new ServiceError('rate_limited', 429, 'Too many.'))],
    ['a check without an answer', () => new Promise<never>(() => undefined)],
  ])('a stream does not end because of %s when it checks whether the caller may read, and checks again', async (_, answer) => {
    let asked = 0
    const { source, seen } = silence({ reauthorize: () => (++asked < 6 ? answer() : refused()) })
    const text = await readSome(streamsWith({ ...settings, reauthorizeMs: 5 }).open(source), () => false)
    expect(text).toMatch(/"code":"unauthorized"/)
    expect(asked).toBe(6)
    expect(seen.ended).toBe(true)
  })

  it('a stream ends when the check has failed for too long, each stream at its own time', async () => {
    const watchers = Array.from({ length: 20 }, () => silence({ reauthorize: () => Promise.reject(new Error('the store is away')) }))
    const streams = streamsWith({ ...settings, max: 20, maxPerCaller: 20, reauthorizeMs: 5, uncheckedMs: 300 })
    const ends: number[] = []
    await Promise.all(
      watchers.map(async ({ source }) => {
        const text = await readSome(streams.open(source), () => false)
        expect(text).toMatch(/"code":"unauthorized"/)
        ends.push(performance.now())
      }),
    )
    expect(Math.max(...ends) - Math.min(...ends)).toBeGreaterThan(50)
  })

  it('each stream checks access at its own time, and no later than the setting says', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const asked = Array.from({ length: 100 }, () => 0)
    const streams = streamsWith({ ...settings, max: 100, maxPerCaller: 100, reauthorizeMs: 1_000 })
    for (const n of asked.keys()) streams.open(silence({ reauthorize: async () => void (asked[n] = (asked[n] ?? 0) + 1) }).source)
    await vi.advanceTimersByTimeAsync(499)
    expect(new Set(asked)).toEqual(new Set([0]))
    await vi.advanceTimersByTimeAsync(251)
    const early = asked.filter((times) => times === 1).length
    expect(early).toBeGreaterThan(20)
    expect(early).toBeLessThan(80)
    await vi.advanceTimersByTimeAsync(250)
    expect(Math.min(...asked)).toBe(1)
  })
})

describe('readers that never read', () => {
  it('readers that never read cost at most one item each, and their streams end', async () => {
    const watchers = Array.from({ length: 1_000 }, () => numbers())
    const streams = streamsWith({ ...settings, max: 1_000, maxPerCaller: 1_000, stalledAfterMs: 50 })
    const responses = watchers.map(({ source }) => streams.open(source))
    expect(() => streams.open(numbers().source)).toThrow(expect.objectContaining({ code: 'too_many_watches' }))
    await until('all streams have ended', () => watchers.every(({ seen }) => seen.ended))
    expect(Math.max(...watchers.map(({ seen }) => seen.made))).toBe(0)
    expect(responses).toHaveLength(1_000)
  })

  it('readers that stop midway are also dropped, while others keep reading', async () => {
    // A pause of this process must not count as one of the reader.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const streams = streamsWith({ ...settings, stalledAfterMs: 100 })
    const [idle, busy] = [numbers(), numbers()]
    const [stopped, read] = [streams.open(idle.source), streams.open(busy.source)]
    await readSome(stopped, (text) => text.includes('"n":2'))
    for (let ms = 0; ms < 100; ms += 10) {
      expect(idle.seen.stopped).toBe(false)
      const { made } = busy.seen
      await readSome(read, (text) => text.includes(`"n":${made + 1}`))
      await vi.advanceTimersByTimeAsync(10)
    }
    expect([idle.seen.stopped, idle.seen.ended, busy.seen.ended, busy.seen.stopped]).toEqual([true, true, false, false])
  })
})

describe('streams of a handler', () => {
  it('streams of a handler are limited in number', () => {
    const streams = streamsWith({ ...settings, max: 1 })
    streams.open(silence().source)
    expect(() => streams.open(silence().source)).toThrow(expect.objectContaining({ code: 'too_many_watches', status: 429 }))
  })

  it('streams of a handler whose client has disconnected before they open leave room for others', async () => {
    const streams = streamsWith({ ...settings, max: 1 })
    const gone = numbers({ signal: AbortSignal.abort() })
    const response = streams.open(gone.source)
    streams.open(silence().source)
    expect(await response.text()).not.toContain('"n"')
    expect(gone.seen.made).toBe(0)
  })

  it('streams of a handler are limited in number for each caller, so that no caller uses all of them', async () => {
    const streams = streamsWith({ ...settings, maxPerCaller: 2 })
    const first = streams.open(silence().source)
    streams.open(silence().source)
    expect(() => streams.open(silence().source)).toThrow(expect.objectContaining({ code: 'too_many_watches', status: 429 }))
    streams.open(silence({ caller: 'bob' }).source)
    await first.body?.cancel()
    streams.open(silence().source)
  })

  it('streams end on a drain with different hints, so clients do not return all at once, and no new one begins', async () => {
    const streams = streamsWith(settings)
    const watchers = [silence(), silence(), silence()]
    const reading = watchers.map(({ source }) => readSome(streams.open(source), () => false))
    streams.drain()
    const texts = await Promise.all(reading)
    const hints = texts.map((text) => Number(/retry: (\d+)\nevent: end\ndata: .*"code":"draining"/.exec(text)?.[1]))
    for (const hint of hints) expect(hint).toBeGreaterThanOrEqual(1_000)
    expect(new Set(hints).size).toBe(3)
    expect(watchers.every(({ seen }) => seen.ended)).toBe(true)
    expect(() => streams.open(silence().source)).toThrow(expect.objectContaining({ code: 'draining', status: 503 }))
  })
})
