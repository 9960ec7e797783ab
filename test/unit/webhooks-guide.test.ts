// The receiver of docs/webhooks.md, against small fakes of Slack and Postmark.
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { requestFor } from '../../src/worker/orchestrator/webhooks/request.ts'
import type * as Receiver from '../guides/webhooks.ts'
import type { StoredDelivery } from '../../src/store/webhooks.ts'

const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
const VARIABLES = ['SLACK_WEBHOOK_URL', 'POSTMARK_URL', 'POSTMARK_TOKEN', 'PAWL_WEBHOOK_SECRET'] as const
const before = VARIABLES.map((name) => process.env[name])

let server: Server
let status = 200
const posted: { path: string; body: Record<string, unknown>; token: unknown }[] = []
let app: typeof Receiver.app

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    posted.push({ path: request.url ?? '', body: JSON.parse(text), token: request.headers['x-postmark-server-token'] })
    response.writeHead(status).end('ok')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const values = [`${url}/services/T0/B0/x`, url, 'a token', secret]
  for (const [at, name] of VARIABLES.entries()) process.env[name] = values[at]
  ;({ app } = await import('../guides/webhooks.ts'))
})
afterAll(() => {
  for (const [at, name] of VARIABLES.entries()) {
    const value = before[at]
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  server.close()
})
beforeEach(() => {
  status = 200
  posted.length = 0
})

async function told(type: StoredDelivery['type'], facts: StoredDelivery['facts'], tamper = (body: string) => body): Promise<number> {
  const now = new Date()
  const delivery = { webhookId: 'wh_1', sessionId: 'customer-42', seq: 7, agent: 'support', happenedAt: now, queuedAt: now, dueAt: now }
  const request = requestFor({ id: 'wh_1', secret }, { ...delivery, type, facts, attempts: 0, lastError: null, givenUpAt: null }, now)
  return (await app.request('/pawl', { method: 'POST', headers: request.headers, body: tamper(request.body) })).status
}

it('the guide’s receiver posts waiting calls to Slack, and mails errors', async () => {
  expect(await told('call.waiting', { kind: 'approval', tool: 'refund', callId: 't_1_1_0' })).toBe(204)
  expect(await told('session.error', { code: 'bad_request' })).toBe(204)
  expect(await told('run.completed', { run: 1 })).toBe(204)
  expect(posted).toEqual([
    { path: '/services/T0/B0/x', body: { text: 'refund waits (approval): `pawl show customer-42`' }, token: undefined },
    {
      path: '/email',
      body: expect.objectContaining({
        Subject: 'customer-42 is in error: bad_request',
        Metadata: { notification: expect.stringMatching(/^msg_/) },
      }),
      token: 'a token',
    },
  ])
})

it('the guide’s receiver refuses what pawl has not signed, and asks for the notification again if Slack is away', async () => {
  expect(await told('call.waiting', { kind: 'approval', tool: 'refund' }, (body) => body.replace('refund', 'transfer'))).toBe(401)
  expect(posted).toEqual([])
  status = 503
  expect(await told('call.waiting', { kind: 'approval', tool: 'refund' })).toBe(500)
})

it('the guide shows the receiver that is tested here', async () => {
  const read = (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), 'utf8')
  const [, code = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(await read('test/guides/webhooks.ts')) ?? []
  expect(await read('docs/webhooks.md')).toContain(code)
})
