// What the web handler asks of the client and writes to the log, with a client that answers nothing.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { Pawl } from '../../../src/client/pawl.ts'
import { noteSource } from '../../../src/client/session/stored-past.ts'
import { InvalidOptionError } from '../../../src/options/errors.ts'
import { createHandler, type HandlerOptions } from '../../../src/service/handler.ts'
import { until } from '../../support/until.ts'

const reader = () => ({ identity: 'ann', scopes: ['read'] as const })

function handlerOf(client: object, more: Partial<HandlerOptions> = {}) {
  const pawl = Object.assign(Object.create(Pawl.prototype), client) as Pawl
  return createHandler({ pawl, authorize: reader, ...more })
}

/** What an HTTP client throws: its members have the request that failed. */
function refusedBy(server: string): Error {
  const request = { headers: { authorization: 'Bearer hunter2' }, body: 'hunter2' }
  return Object.assign(new Error(`${server} answered 502`), { request })
}

it('the handler logs the message and the stack of what authorize throws, but not its members, which may be credentials', async () => {
  const lines: object[] = []
  const note = (fields: object): void => void lines.push(fields)
  const logger = { debug: note, info: note, warn: note, error: note }
  const authorize = () => Promise.reject(new Error('nobody knows', { cause: refusedBy('the directory') }))
  const response = await handlerOf({}, { authorize, logger })(new Request('http://localhost/v1/sessions'))
  expect(response.status).toBe(500)
  const err = expect.objectContaining({ message: 'nobody knows', stack: expect.stringContaining('handler.test.ts') })
  expect(lines).toEqual([{ err, method: 'GET', path: '/v1/sessions' }])
  const { err: logged } = lines[0] as { err: Error }
  expect(logged).toBeInstanceOf(Error)
  expect(logged.cause).toMatchObject({ message: 'the directory answered 502' })
  expect(logged.cause).not.toHaveProperty('request')
})

it('without a logger, the same is true of what the handler writes to standard error', async () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    const authorize = () => Promise.reject(refusedBy('the directory'))
    await handlerOf({}, { authorize })(new Request('http://localhost/v1/sessions'))
    const text = written.mock.calls.join('\n')
    expect(text).toContain('the directory answered 502')
    expect(text).not.toContain('hunter2')
  } finally {
    written.mockRestore()
  }
})

it('a logger that throws loses the line, and the caller receives the response', async () => {
  const broken = () => {
    throw new Error('the disk is full')
  }
  const authorize = () => Promise.reject(new Error('nobody knows'))
  const logger = { debug: broken, info: broken, warn: broken, error: broken }
  const response = await handlerOf({}, { authorize, logger })(new Request('http://localhost/v1/sessions'))
  expect([response.status, await response.json()]).toMatchObject([500, { code: 'internal_error' }])
})

it('a stream of the feed opens although no event matches its filter, and what looked for the first one ends', async () => {
  const signals: AbortSignal[] = []
  async function* events({ signal }: { signal: AbortSignal }): AsyncGenerator<never> {
    signals.push(signal)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  }
  const client = new AbortController()
  const request = new Request('http://localhost/v1/events/watch?agent=nobody', { signal: client.signal })
  const response = await handlerOf({ events })(request)
  expect(response.status).toBe(200)
  expect(signals[0]?.aborted).toBe(true)
  client.abort()
  await response.body?.cancel().catch(() => undefined)
  await until('nothing reads the feed', () => signals.every(({ aborted }) => aborted))
})

it('a request for the headers of a stream opens none, so it leaves the caller’s place free', async () => {
  async function* events(): AsyncGenerator<never> {
    yield* []
  }
  const handler = handlerOf({ events }, { maxWatchesPerCaller: 1 })
  const watch = (method: string): Promise<Response> => handler(new Request('http://localhost/v1/events/watch', { method }))
  for (const _ of [1, 2]) expect((await watch('HEAD')).status).toBe(200)
  const stream = await watch('GET')
  expect(stream.status).toBe(200)
  await stream.body?.cancel()
})

it('a stream of the feed with an invalid cursor is refused', async () => {
  // oxlint-disable-next-line require-yield -- it fails before it has anything to yield
  async function* events(): AsyncGenerator<never> {
    throw new InvalidOptionError('`after` is not a cursor.')
  }
  const response = await handlerOf({ events })(new Request('http://localhost/v1/events/watch?after=nonsense'))
  expect([response.status, await response.json()]).toMatchObject([400, { code: 'invalid_option' }])
})

it('a client that disconnects while it waits for a run is not a server failure: nothing is logged', async () => {
  const lines: object[] = []
  const note = (fields: object): void => void lines.push(fields)
  const client = new AbortController()
  let isWaiting = false
  const settled = ({ signal }: { signal: AbortSignal }): Promise<never> => {
    isWaiting = true
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))
  }
  const session = (id: string) => ({ id, run: () => ({ settled }) })
  const sessions = { get: async () => ({ flushedSeq: 1 }) }
  const handler = handlerOf({ session, sessions }, { logger: { debug: note, info: note, warn: note, error: note } })
  const answered = handler(new Request('http://localhost/v1/sessions/s/messages/m/run', { signal: client.signal }))
  await until('it waits', () => isWaiting)
  client.abort()
  await answered
  expect(lines).toEqual([])
})

it('a request for a large value counts with the size of that value', async () => {
  const sizes: Record<string, number> = { a: 1_000_000, b: 5_000_000 }
  const session = (id: string) => {
    const handle = { id, blob: async (sha256: string) => JSON.stringify('x'.repeat(sizes[sha256.charAt(0)] ?? 0)) }
    noteSource(handle, { store: { blobs: { size: async (_: string, sha256: string) => sizes[sha256.charAt(0)] } } } as never)
    return handle
  }
  // A quarter of it is one caller's.
  const handler = handlerOf({ session }, { requestMemory: 100_000_000 })
  const read = (digit: string): Promise<Response> => handler(new Request(`http://localhost/v1/sessions/s/blobs/${digit.repeat(64)}`))
  const small = await Promise.all([read('a'), read('a')])
  expect(small.map(({ status }) => status)).toEqual([200, 200])
  for (const { body } of small) await body?.cancel()

  const first = await read('b')
  let isAnswered = false
  const second = read('b').finally(() => (isAnswered = true))
  await sleep(200)
  expect(isAnswered).toBe(false)
  await first.body?.cancel()
  expect((await second).status).toBe(200)
  await (await second).body?.cancel()
})
