// What a webhook's target receives, which addresses may be targets, and when a request is made again.
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isPublic, publicLookup } from '../../../src/worker/orchestrator/webhooks/addresses.ts'
import { pauseAfter } from '../../../src/worker/orchestrator/webhooks/backoff.ts'
import { post } from '../../../src/worker/orchestrator/webhooks/post.ts'
import { requestFor } from '../../../src/worker/orchestrator/webhooks/request.ts'
import type { StoredDelivery } from '../../../src/store/webhooks.ts'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const AT = new Date('2026-11-28T12:00:00Z')

const delivery = (more: Partial<StoredDelivery> = {}): StoredDelivery => ({
  webhookId: 'wh_1',
  sessionId: 'customer-42',
  seq: 7,
  agent: 'support',
  type: 'call.waiting',
  happenedAt: AT,
  facts: { kind: 'approval', run: 1, turn: 1, callId: 't_1_1_0', tool: 'refund' },
  queuedAt: AT,
  attempts: 0,
  dueAt: AT,
  lastError: null,
  givenUpAt: null,
  ...more,
})

describe('a webhook’s request', () => {
  it('a webhook’s request is accepted by the reference implementation of Standard Webhooks, and refused once a byte differs', () => {
    const now = new Date()
    const { body, headers } = requestFor({ id: 'wh_1', secret }, delivery(), now)
    const data = {
      sessionId: 'customer-42',
      agent: 'support',
      seq: 7,
      kind: 'approval',
      run: 1,
      turn: 1,
      callId: 't_1_1_0',
      tool: 'refund',
    }
    expect(new Webhook(secret).verify(body, headers)).toEqual({ type: 'call.waiting', timestamp: AT.toISOString(), data })
    expect(() => new Webhook(secret).verify(body.replace('refund', 'refunds'), headers)).toThrow('No matching signature')
    const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`
    expect(() => new Webhook(other).verify(body, headers)).toThrow('No matching signature')
  })

  it('each request of a notification has the same id, and no other notification has it', () => {
    const idOf = (of: StoredDelivery, webhook = 'wh_1'): string | undefined =>
      requestFor({ id: webhook, secret }, of, new Date()).headers['webhook-id']
    expect(idOf(delivery({ attempts: 3 }))).toBe(idOf(delivery()))
    expect(new Set([idOf(delivery()), idOf(delivery({ seq: 8 })), idOf(delivery({ sessionId: 'x' })), idOf(delivery(), 'wh_2')]).size).toBe(
      4,
    )
  })
})

describe('an address', () => {
  it.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.31.255.255',
    '192.168.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '::1',
    '::',
    'fe80::1',
    'fd00::1',
    'ff02::1',
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '64:ff9b::7f00:1',
    '2001:db8::1',
    '2002:7f00:1::',
    'localhost',
  ])('%s is not public', (address) => {
    expect(isPublic(address)).toBe(false)
  })

  it.each(['8.8.8.8', '1.1.1.1', '172.32.0.1', '192.0.3.1', '2606:4700:4700::1111', '2a00:1450:4001:80b::200e'])(
    '%s is public',
    (address) => {
      expect(isPublic(address)).toBe(true)
    },
  )

  it('a name that leads to a private address is refused when it is looked up', async () => {
    const error = await new Promise((resolve) => publicLookup('localhost', {}, resolve))
    expect(error).toMatchObject({ name: 'PrivateAddressError', message: expect.stringMatching(/^localhost leads to the private address /) })
  })
})

describe('a request to a target', () => {
  let server: Server
  let port: number
  const paths: string[] = []

  beforeAll(async () => {
    server = createServer((request, response) => {
      paths.push(request.url ?? '')
      if (request.url === '/moved') response.writeHead(302, { location: '/elsewhere' }).end()
      else if (request.url === '/busy') response.writeHead(503, { 'retry-after': '120' }).end()
      else if (request.url === '/later') response.writeHead(429, { 'retry-after': new Date(Date.now() + 60_000).toUTCString() }).end()
      else if (request.url === '/endless') response.writeHead(200).write('x'.repeat(100_000))
      else if (request.url !== '/silent') response.writeHead(204).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    ;({ port } = server.address() as AddressInfo)
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  const to = (path: string, { allowsPrivate = true, ms = 5_000, host = '127.0.0.1' } = {}) =>
    post(`http://${host}:${port}${path}`, { body: '{}', headers: {} }, { allowsPrivate, signal: AbortSignal.timeout(ms) })

  it('a target’s answer is its status, whatever else it sends', async () => {
    expect(await to('/')).toEqual({ status: 204 })
    expect(await to('/endless')).toEqual({ status: 200 })
    expect(await to('/busy')).toEqual({ status: 503, retryAfterMs: 120_000 })
    const { retryAfterMs = 0 } = await to('/later')
    expect(retryAfterMs).toBeGreaterThan(50_000)
    expect(retryAfterMs).toBeLessThanOrEqual(60_000)
  })

  it('a redirect is not followed', async () => {
    expect(await to('/moved')).toEqual({ status: 302 })
    expect(paths).not.toContain('/elsewhere')
  })

  it('a target that does not answer is given up in time', async () => {
    await expect(to('/silent', { ms: 50 })).rejects.toMatchObject({ name: expect.stringMatching(/AbortError|TimeoutError/) })
  })

  it('a target that asks for another protocol in place of an answer has given none', async () => {
    const raw = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'))
    })
    await new Promise<void>((resolve) => raw.listen(0, '127.0.0.1', resolve))
    try {
      const url = `http://127.0.0.1:${(raw.address() as AddressInfo).port}/`
      const sent = post(url, { body: '{}', headers: {} }, { allowsPrivate: true, signal: AbortSignal.timeout(5_000) })
      await expect(sent).rejects.toThrow('the connection ended without an answer')
    } finally {
      raw.close()
    }
  })

  it('a private address receives nothing unless that is allowed, by its number or by a name', async () => {
    const before = paths.length
    await expect(to('/', { allowsPrivate: false })).rejects.toThrow('127.0.0.1 is a private address')
    await expect(to('/', { allowsPrivate: false, host: 'localhost' })).rejects.toThrow('localhost leads to the private address')
    await expect(to('/', { allowsPrivate: false, host: '2130706433' })).rejects.toThrow('127.0.0.1 is a private address')
    await expect(to('/', { allowsPrivate: false, host: '[::1]' })).rejects.toThrow('::1 is a private address')
    expect(paths).toHaveLength(before)
  })
})

describe('a failed request', () => {
  const HOUR = 3_600_000

  it('a failed request is made again after pauses that grow from seconds to hours', () => {
    const pauses = Array.from({ length: 12 }, (_, attempts) => pauseAfter(attempts, 0, 0, 0))
    expect(pauses.slice(0, 3)).toEqual([5_000, 15_000, 60_000])
    expect(pauses.at(-1)).toBe(8 * HOUR)
    expect(pauses).toEqual(pauses.toSorted((a, b) => Number(a) - Number(b)))
  })

  it('a failed request is given up after three days', () => {
    expect(pauseAfter(20, 71 * HOUR)).not.toBeNull()
    expect(pauseAfter(2, 72 * HOUR)).toBeNull()
  })

  it('a target’s wish to wait is respected, up to eight hours', () => {
    expect(pauseAfter(0, 0, 120_000, 0)).toBe(120_000)
    expect(pauseAfter(0, 0, 1e15, 0)).toBe(8 * HOUR)
    expect(pauseAfter(3, 0, 1_000, 0)).toBe(300_000)
  })
})
