// The web handler: what it answers, to whom, and what it refuses; against real servers and a worker.
import { randomUUID } from 'node:crypto'
import { defineAgent, defineTool, type ModelCallContext, ModelError, type ModelRequest } from 'pawl'
import { type Access, createHandler, type Handler } from 'pawl/service'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { codeOf } from '../support/codes.ts'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { answersIn, saidIn } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { eventsUntil, type ServerSent, webClient, type WebClient } from '../support/web.ts'

const ALL = ['read', 'send', 'approve', 'operate'] as const
const ACCESSES: Record<string, Access> = {
  root: { identity: 'root', scopes: ALL },
  acme: { identity: 'ann@acme', scopes: ALL, tenant: 'acme', context: { tenantId: 'acme' } },
  globex: { identity: 'gil@globex', scopes: ALL, tenant: 'globex' },
  reader: { identity: 'reader', scopes: ['read'], tenant: 'acme' },
  nothing: { identity: 'nothing', scopes: [] },
  broken: { identity: '', scopes: ALL },
}
const revoked = new Set<string>()

function authorize(request: Request): Access | null {
  const key = /^Bearer (\w+)$/.exec(request.headers.get('authorization') ?? '')?.[1] ?? ''
  if (key === 'throws') throw new Error('postgres://user:password@host is away')
  return revoked.has(key) ? null : (ACCESSES[key] ?? null)
}

const held = gate()
const spoken = gate()
const input = z.object({ what: z.string() })
const use = (name: string): ScriptedAnswer => [{ type: 'tool_use', id: 'toolu_1', name, input: { what: name } }]
const desk = defineAgent({
  name: 'desk',
  instructions: 'Serve.',
  recovery: { automatic: [] },
  sessionLimits: { maxTotalTokens: 1_000_000 },
  model: scripted(async (request: ModelRequest, ctx: ModelCallContext): Promise<ScriptedAnswer> => {
    const newest = saidIn(request).at(-1) ?? ''
    if (newest === 'fail') throw new ModelError('bad_request', 'The model refuses.', { retryable: false })
    if (newest === 'speak') {
      ctx.onDelta({ type: 'text', index: 0, text: 'Once upon' })
      await spoken.pass(ctx.signal)
      return 'Once upon a time.'
    }
    const isAnswered = request.messages.at(-1)?.content !== newest
    return ['pay', 'ask', 'hold', 'wire', 'pick'].includes(newest) && !isAnswered ? use(newest) : `answer ${answersIn(request) + 1}`
  }),
  tools: [
    defineTool({
      name: 'pay',
      description: 'Pays.',
      input,
      effect: 'external',
      approval: true,
      execute: (_, ctx) => ({ context: ctx.context }),
    }),
    defineTool({ name: 'ask', description: 'Asks.', input, effect: 'read', execute: 'client', output: z.object({ color: z.string() }) }),
    defineTool({ name: 'pick', description: 'Picks.', input, effect: 'read', execute: 'client' }),
    defineTool({ name: 'hold', description: 'Holds.', input, effect: 'read', execute: (_, ctx) => held.pass(ctx.signal) }),
    defineTool({
      name: 'wire',
      description: 'Wires.',
      input,
      effect: 'external',
      execute: () => {
        throw new Error('reply lost')
      },
    }),
  ],
})

let here: Deployment
let handler: Handler
let root: WebClient
let acme: WebClient
let globex: WebClient

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [desk] })
  handler = createHandler({ pawl: here.pawl, authorize, agents: ['desk'], logger: SILENT, reauthorizeEvery: 200 })
  ;[root, acme, globex] = ['root', 'acme', 'globex'].map((key) => webClient(handler, key)) as [WebClient, WebClient, WebClient]
})
afterAll(async () => {
  held.open()
  spoken.open()
  await here?.stop()
})

interface SendAnswer {
  sessionId: string
  messageId: string
}

/** Starts a session and waits until its run has settled. */
async function talk(client: WebClient, content: string, more: object = {}): Promise<SendAnswer & { run: Record<string, unknown> }> {
  const { status, body } = await client.post<SendAnswer>('/v1/sessions', { agent: 'desk', content, ...more })
  expect(status).toBe(201)
  return { ...body, run: await settled(client, body) }
}

async function settled(client: WebClient, { sessionId, messageId }: SendAnswer): Promise<Record<string, unknown>> {
  const { status, body } = await client.get(`/v1/sessions/${sessionId}/messages/${messageId}/run?wait=30`)
  expect(status).toBe(200)
  return body
}

interface Pending {
  callId: string
  digest: string
  kind: string
  sessionId: string
}

async function pendingOf(client: WebClient, sessionId: string): Promise<Pending> {
  return until('a call is pending', async () => {
    const { body } = await client.get<{ items: Pending[] }>(`/v1/pending?session=${sessionId}`)
    return body.items[0]
  })
}

/** All operations of the document, with a value for each path parameter. */
function operations(sessionId: string): { method: string; path: string; operation: string }[] {
  const paths = handler.openApi.paths as Record<string, Record<string, { operationId: string }>>
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => ({
      method: method.toUpperCase(),
      path: path
        .replace('{session}', sessionId)
        .replace('{call}', 't_1_1_0')
        .replace('{message}', 'm')
        .replace('{run}', '1')
        .replace('{sha256}', 'a'.repeat(64)),
      operation: operationId,
    })),
  )
}

const PROBES = ['getHealth', 'getReadiness']

describe('a conversation', () => {
  it('a conversation is started, continued and read', async () => {
    const { status, body, headers } = await root.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'hello', tags: ['vip'] })
    expect(status).toBe(201)
    expect(headers.get('location')).toBe(`/v1/sessions/${body.sessionId}`)
    expect(await settled(root, body)).toMatchObject({ status: 'completed', text: 'answer 1', run: 1 })
    const more = await root.post<SendAnswer>(`/v1/sessions/${body.sessionId}/messages`, { content: [{ type: 'text', text: 'again' }] })
    expect(more.status).toBe(202)
    expect(await settled(root, more.body)).toMatchObject({ status: 'completed', text: 'answer 2' })
    const at = `/v1/sessions/${body.sessionId}`
    expect((await root.get(at)).body).toMatchObject({ sessionId: body.sessionId, agent: 'desk', status: 'idle' })
    expect((await root.get(`${at}/state`)).body).toMatchObject({ agent: 'desk', run: 2, tags: ['vip'] })
    const messages = await until('all messages are stored', async () => {
      const { items } = (await root.get<{ items: { role: string }[] }>(`${at}/messages`)).body
      return items.length === 4 && items
    })
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant'])
    const events = (await root.get<{ items: { seq: number; type: string }[] }>(`${at}/events?after=1&limit=3`)).body.items
    expect(events.map(({ seq }) => seq)).toEqual([2, 3, 4])
    expect((await root.get(`${at}/runs/2`)).body).toMatchObject({ run: 2 })
    expect((await root.get(`${at}/budgets`)).body).toMatchObject({ items: [{ unit: 'tokens', scope: 'session' }] })
    for (const past of ['budgets', 'plan', 'memory']) {
      expect(await root.get(`${at}/${past}?at=99`)).toMatchObject({ status: 404, body: { code: 'checkpoint_not_found' } })
    }
    expect((await root.get(`${at}/plan`)).body).toEqual({ plan: null })
    expect((await root.get(`${at}/memory`)).body).toEqual({ items: [] })
  })

  it('a conversation can be read right after it was started: a read waits until its events are stored', async () => {
    for (const what of ['messages', 'checkpoints', 'events', 'state', 'plan', 'memory', 'budgets']) {
      const { body } = await root.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'hello' })
      expect([what, (await root.get(`/v1/sessions/${body.sessionId}/${what}`)).status]).toEqual([what, 200])
    }
    expect(await root.get('/v1/sessions/no-such-session/messages')).toMatchObject({ status: 404, body: { code: 'session_not_found' } })
  })

  it('a request repeated with its Idempotency-Key is accepted only once, even the one that starts a conversation', async () => {
    const headers = { 'idempotency-key': `key-${randomUUID()}` }
    const first = await root.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'once' }, headers)
    const again = await root.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'once' }, headers)
    expect(again.body).toEqual(first.body)
    expect(first.body.messageId).toBe(headers['idempotency-key'])
    await settled(root, first.body)
    const events = (await root.get<{ items: { type: string }[] }>(`/v1/sessions/${first.body.sessionId}/events`)).body.items
    expect(events.filter(({ type }) => type === 'message_received')).toHaveLength(1)
    // The same key from another caller is a different key.
    const other = await acme.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'once' }, headers)
    expect(other.body.sessionId).not.toBe(first.body.sessionId)
  })

  it('a conversation records who sent a message', async () => {
    const { sessionId, messageId } = await talk(acme, 'hello')
    expect(await eventOf(acme, sessionId, 'message_received')).toMatchObject({ by: 'ann@acme' })
    const messages = await until('it is stored', async () => {
      const { items } = (await acme.get<{ items: { by: string | null }[] }>(`/v1/sessions/${sessionId}/messages`)).body
      return items.length === 2 && items
    })
    expect(messages.map(({ by }) => by)).toEqual(['ann@acme', null])
    const again = await acme.post(`/v1/sessions/${sessionId}/messages`, { content: 'as somebody else', by: 'bob' })
    expect(again).toMatchObject({ status: 400, body: { parts: [{ at: 'body.by' }] } })
    expect((await here.pawl.session(sessionId).messages())[0]).toMatchObject({ messageId, by: 'ann@acme' })
  })

  it('a conversation reports that a run is in progress, and an interrupt stops it and records who requested it', async () => {
    const { body } = await acme.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'hold' })
    await held.reached
    expect((await acme.get(`/v1/sessions/${body.sessionId}/messages/${body.messageId}/run?wait=1`)).body).toEqual({ status: 'pending' })
    expect((await acme.post(`/v1/sessions/${body.sessionId}/interrupt`, { reason: 'enough' })).status).toBe(202)
    expect(await settled(acme, body)).toMatchObject({ status: 'interrupted', reason: 'enough' })
    expect(await eventOf(acme, body.sessionId, 'run_interrupted')).toMatchObject({ by: 'ann@acme' })
  })

  it('a conversation can be closed, and a message without the agent does not reopen it', async () => {
    const { sessionId } = await talk(root, 'hello')
    expect((await root.post(`/v1/sessions/${sessionId}/close`)).status).toBe(202)
    await here.workflowEnded(sessionId)
    expect(await root.post(`/v1/sessions/${sessionId}/messages`, { content: 'more' })).toMatchObject({
      status: 409,
      body: { code: 'no_agent' },
    })
    const opened = await root.post<SendAnswer>(`/v1/sessions/${sessionId}/messages`, { content: 'more', agent: 'desk' })
    expect(await settled(root, opened.body)).toMatchObject({ status: 'completed', text: 'answer 2' })
  })
})

async function eventOf(client: WebClient, sessionId: string, type: string): Promise<unknown> {
  return until(`there is an event ${type}`, async () => {
    const { items } = (await client.get<{ items: { type: string }[] }>(`/v1/sessions/${sessionId}/events`)).body
    return items.find((event) => event.type === type)
  })
}

describe('a decision', () => {
  it('a decision to approve is recorded with the identity of the caller', async () => {
    const { sessionId, messageId, run } = await talk(acme, 'pay')
    expect(run).toMatchObject({ status: 'waiting', pending: [{ kind: 'approval', tool: 'pay' }] })
    const { callId, digest } = await pendingOf(acme, sessionId)
    const at = `/v1/sessions/${sessionId}/calls/${callId}`
    expect(await acme.post(`${at}/approve`, { digest: 'another' })).toMatchObject({ status: 409, body: { code: 'digest_mismatch' } })
    expect(await acme.post(`${at}/approve`, { digest, by: 'the boss' })).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
    expect(await acme.post(`${at}/approve`, { digest, note: 'fine' })).toMatchObject({ status: 200, body: { digest } })
    expect(await settled(acme, { sessionId, messageId })).toMatchObject({ status: 'completed' })
    expect(await eventOf(acme, sessionId, 'approval_decided')).toMatchObject({ by: 'ann@acme', note: 'fine' })
  })

  it('a decision to deny reaches the model', async () => {
    const { sessionId, messageId } = await talk(root, 'pay')
    const { callId, digest } = await pendingOf(root, sessionId)
    expect((await root.post(`/v1/sessions/${sessionId}/calls/${callId}/deny`, { digest, reason: 'too much' })).status).toBe(204)
    expect(await settled(root, { sessionId, messageId })).toMatchObject({ status: 'completed' })
    const { body } = await root.get(`/v1/sessions/${sessionId}/messages`)
    expect(JSON.stringify(body)).toContain('too much')
  })

  it('a decision on a client tool is an answer that matches its schema', async () => {
    const { sessionId, messageId } = await talk(root, 'ask')
    const { callId, kind } = await pendingOf(root, sessionId)
    expect(kind).toBe('client')
    const at = `/v1/sessions/${sessionId}/calls/${callId}/answer`
    expect(await root.post(at, { result: { color: 5 } })).toMatchObject({ status: 400, body: { code: 'invalid_answer' } })
    expect((await root.post(at, { result: { color: 'red' } })).status).toBe(204)
    expect(await settled(root, { sessionId, messageId })).toMatchObject({ status: 'completed' })
  })

  it('a decision on an unknown outcome lets the run continue', async () => {
    const { sessionId, messageId } = await talk(root, 'wire')
    const { callId, kind } = await pendingOf(root, sessionId)
    expect(kind).toBe('unknown')
    const at = `/v1/sessions/${sessionId}/calls/${callId}/resolve`
    expect((await root.post(at, { resolution: { happened: true, result: 'sent' } })).status).toBe(204)
    expect(await settled(root, { sessionId, messageId })).toMatchObject({ status: 'completed' })
    expect(await root.post(at, { resolution: 'skip' })).toMatchObject({ status: 409 })
  })
})

describe('an operator', () => {
  it('an operator recovers a session that failed', async () => {
    const { sessionId, run } = await talk(root, 'fail')
    expect(run).toMatchObject({ status: 'failed', code: 'bad_request' })
    expect((await root.post(`/v1/sessions/${sessionId}/recover`, { strategy: 'abandon', reason: 'nonsense' })).status).toBe(204)
    expect((await root.get(`/v1/sessions/${sessionId}`)).body).toMatchObject({ status: 'idle' })
    expect(await root.post(`/v1/sessions/${sessionId}/recover`)).toMatchObject({ status: 409, body: { code: 'not_in_error' } })
    const { items } = (await root.get<{ items: object[] }>(`/v1/errors?session=${sessionId}`)).body
    expect(items).toContainEqual(expect.objectContaining({ code: 'bad_request' }))
  })

  it('an operator rolls back, regenerates, and forks', async () => {
    const { sessionId } = await talk(acme, 'hello')
    const at = `/v1/sessions/${sessionId}`
    const again = await acme.post<{ messageId: string }>(`${at}/regenerate`, {})
    expect(again.status).toBe(202)
    const made = await acme.post(`${at}/checkpoints`, { reason: 'here' })
    expect(made).toMatchObject({ status: 201, body: { version: expect.any(Number), made: true } })
    const fork = await acme.post<{ sessionId: string }>(`${at}/fork`, {})
    expect(fork.status).toBe(201)
    expect(fork.body.sessionId).toMatch(/^acme:/)
    expect((await acme.get(`/v1/sessions/${fork.body.sessionId}/state`)).body).toMatchObject({ tags: ['tenant:acme'], agent: 'desk' })
    expect(await acme.post(`${at}/rollback`, { run: 1 })).toMatchObject({ status: 200, body: { effects: [] } })
    expect(await acme.post(`${at}/rollback`, { checkpoint: 99 })).toMatchObject({ status: 404, body: { code: 'checkpoint_not_found' } })
    expect(await acme.post(`${at}/rollback`, {})).toMatchObject({ status: 400, body: { code: 'invalid_target' } })
  })

  it('an operator pauses, and raises limits', async () => {
    const { sessionId } = await talk(acme, 'hello')
    const at = `/v1/sessions/${sessionId}`
    expect((await acme.post(`${at}/pause`, { reason: 'audit' })).body).toMatchObject({
      already: false,
      paused: { by: 'ann@acme', reason: 'audit' },
    })
    expect((await acme.post(`${at}/unpause`)).body).toEqual({ already: false })
    expect(await acme.post(`${at}/raise`, { maxUsd: 5, scope: 'session' })).toMatchObject({ status: 409, body: { code: 'no_limit' } })
    expect(await acme.post(`${at}/raise`, {})).toMatchObject({ status: 400, body: { code: 'invalid_raise' } })
  })
})

describe('nothing is answered', () => {
  it('nothing is answered without credentials, except the probes and the description of the interface', async () => {
    const stranger = webClient(handler, 'stranger')
    for (const { method, path, operation } of operations('s')) {
      const { status, body } = method === 'GET' ? await stranger.get(path) : await stranger.post(path, {})
      if (PROBES.includes(operation)) expect(status, operation).toBe(200)
      else expect({ status, code: body.code }, operation).toEqual({ status: 401, code: 'unauthorized' })
    }
    const { status, body } = await stranger.get('/openapi.json')
    expect({ status, openapi: body.openapi }).toEqual({ status: 200, openapi: '3.1.0' })
    // Names of agents are not for strangers.
    expect(JSON.stringify(body)).not.toContain('desk')
    for (const path of ['/', '/v1', '/v2/sessions', '/v1/sessions/s/nothing']) {
      const response = await handler(new Request(`http://service.test${path}`))
      expect(response.status, path).toBe(401)
      expect(response.headers.get('www-authenticate')).toBe('Bearer')
    }
  })

  it('nothing is answered without the scope that it needs', async () => {
    const [nothing, reader] = [webClient(handler, 'nothing'), webClient(handler, 'reader')]
    for (const { method, path, operation } of operations('acme:s')) {
      if (PROBES.includes(operation)) continue
      const { status, body } = method === 'GET' ? await nothing.get(path) : await nothing.post(path, {})
      expect({ status, code: body.code }, operation).toEqual({ status: 403, code: 'forbidden' })
      if (method === 'POST') expect((await reader.post(path, {})).status, operation).toBe(403)
    }
  })

  it('nothing is answered if authorize returns something invalid or throws, and the caller is not told why', async () => {
    expect(await webClient(handler, 'broken').get('/v1/sessions')).toMatchObject({ status: 500, body: { code: 'invalid_access' } })
    const { status, body } = await webClient(handler, 'throws').get('/v1/sessions')
    expect({ status, code: body.code }).toEqual({ status: 500, code: 'internal_error' })
    expect(JSON.stringify(body)).not.toContain('password')
  })
})

describe('a tenant', () => {
  let theirs: SendAnswer
  let ours: SendAnswer
  beforeAll(async () => {
    ;[theirs, ours] = await Promise.all([talk(globex, 'pay'), talk(acme, 'pay')])
    await Promise.all([pendingOf(root, theirs.sessionId), pendingOf(root, ours.sessionId)])
  })

  it('a tenant’s sessions have ids, tags and a context that name the tenant, regardless of the request', async () => {
    const context = { tenantId: 'globex', user: 'u1' }
    const { sessionId } = await talk(acme, 'hello', { context, tags: ['vip'], id: `acme:mine-${randomUUID()}` })
    expect((await acme.get(`/v1/sessions/${sessionId}/state`)).body).toMatchObject({
      context: { tenantId: 'acme', user: 'u1' },
      tags: ['vip', 'tenant:acme'],
    })
    expect(ours.sessionId).toMatch(/^acme:[0-9a-f-]{36}$/)
    const forged = await acme.post('/v1/sessions', { agent: 'desk', content: 'x', tags: ['tenant:globex'] })
    expect(forged).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
  })

  it('a tenant finds no session of another tenant: each request about one is answered as if it did not exist', async () => {
    const none = `globex:none-${randomUUID()}`
    for (const { method, path, operation } of operations(theirs.sessionId)) {
      if (!path.includes(theirs.sessionId)) continue
      for (const body of [{}, { digest: 'd' }, { content: 'x', agent: 'desk' }, { nonsense: true }]) {
        const asked = (at: string) => (method === 'GET' ? acme.get(at) : acme.post(at, body))
        const [one, other] = [await asked(path), await asked(path.replace(theirs.sessionId, none))]
        expect({ status: one.status, code: one.body.code }, operation).toEqual({ status: 404, code: 'session_not_found' })
        expect(JSON.stringify(one.body).replaceAll(theirs.sessionId, none), operation).toBe(JSON.stringify(other.body))
      }
    }
    expect((await globex.get(`/v1/sessions/${theirs.sessionId}`)).body).toMatchObject({ status: 'waiting', queued: 0 })
  })

  it('a tenant can neither start nor fork a session with an id of another tenant, nor ask for one in a list', async () => {
    const id = `globex:new-${randomUUID()}`
    const starts: [string, object][] = [
      ['/v1/sessions', { agent: 'desk', content: 'x' }],
      [`/v1/sessions/${ours.sessionId}/fork`, {}],
      ['/v1/ui', { agent: 'desk', messages: [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text: 'x' }] }] }],
    ]
    for (const [path, body] of starts) {
      // The answer is the same whether or not another tenant has the session.
      for (const foreign of [id, theirs.sessionId, 'mine']) {
        const refused = await acme.post(path, { ...body, id: foreign })
        const detail = 'ids must begin with "acme:", the prefix of these credentials\' tenant'
        expect(refused, path).toMatchObject({ status: 400, body: { code: 'invalid_input', parts: [{ at: 'body.id', detail }] } })
      }
    }
    for (const list of ['pending', 'errors', 'tool-calls']) {
      expect((await acme.get(`/v1/${list}?session=${theirs.sessionId}`)).status, list).toBe(404)
    }
    expect((await acme.get(`/v1/usage?by=session&session=${theirs.sessionId}`)).status).toBe(404)
    expect((await root.get(`/v1/sessions/${id}`)).status).toBe(404)
  })

  it('a tenant sees only its own sessions, in every list, in the totals and in the feed', async () => {
    await until('the sessions are stored', async () => {
      const { items } = (await root.get<{ items: object[] }>('/v1/pending?limit=1000')).body
      return JSON.stringify(items).includes(theirs.sessionId) && JSON.stringify(items).includes(ours.sessionId)
    })
    const paths = ['sessions', 'pending', 'tool-calls', 'errors', 'usage?by=session', 'overview', 'events?limit=1000', 'failures']
    for (const path of paths) {
      const { status, body } = await acme.get(`/v1/${path}`)
      expect(status, path).toBe(200)
      const ids = JSON.stringify(body).match(/"(sessionId|key)":"[^"]*"/g) ?? []
      expect(
        ids.filter((id) => !/:"acme:/.test(id) && !/"key":"(?!globex)/.test(id)),
        path,
      ).toEqual([])
      expect(JSON.stringify(body), path).not.toContain('globex:')
    }
    expect(JSON.stringify((await acme.get('/v1/sessions')).body)).toContain(ours.sessionId)
    // The feed holds an event back while any older transaction of the server is still writing.
    await until('the feed has it', async () => JSON.stringify((await acme.get('/v1/events?limit=1000')).body).includes(ours.sessionId))
    expect(JSON.stringify((await root.get('/v1/pending?limit=1000')).body)).toContain('globex:')
  })

  it('a list that is filtered by what no database can hold is empty', async () => {
    for (const filter of ['role=%00', 'group=%00'])
      expect(await acme.get(`/v1/pending?${filter}`)).toMatchObject({ status: 200, body: { items: [] } })
  })

  it('a tenant cannot use the cursor of a list that another caller has read', async () => {
    const { cursor } = (await root.get<{ cursor: string }>('/v1/sessions?limit=1')).body
    expect(await acme.get(`/v1/sessions?limit=1&cursor=${cursor}`)).toMatchObject({ status: 400, body: { code: 'invalid_cursor' } })
  })
})

describe('a watcher', () => {
  const isEnd = ({ event }: ServerSent): boolean => event === 'end'
  const ofType =
    (type: string) =>
    ({ data }: ServerSent): boolean =>
      data.event?.type === type

  it('a watcher receives every durable event once and in order, and continues after the last one that it has', async () => {
    const { sessionId } = await talk(root, 'hello')
    const stop = new AbortController()
    const seen = await eventsUntil(await root.watch(`/v1/sessions/${sessionId}/watch`, stop), ofType('run_completed'))
    const stored = (await root.get<{ items: { seq: number }[] }>(`/v1/sessions/${sessionId}/events`)).body.items
    const durable = seen.filter(({ event }) => event === 'event')
    expect(durable.map(({ data }) => data.event)).toEqual(stored.slice(0, durable.length))
    expect(durable.map(({ id }) => id)).toEqual(durable.map(({ data }) => String(data.event.seq)))
    const again = await root.watch(`/v1/sessions/${sessionId}/watch?after=1`, { signal: stop.signal, lastEventId: '3' })
    const rest = (await eventsUntil(again, ofType('run_completed'))).filter(({ event }) => event === 'event')
    expect(rest[0]?.id).toBe('4')
    stop.abort()
  })

  it('a watcher receives what happens while it watches', async () => {
    const { sessionId } = await talk(root, 'hello')
    const { seq } = (await root.get<{ seq: number }>(`/v1/sessions/${sessionId}/state`)).body
    const watching = await root.watch(`/v1/sessions/${sessionId}/watch?after=${seq}`)
    await root.post(`/v1/sessions/${sessionId}/messages`, { content: 'news' })
    const seen = await eventsUntil(watching, ofType('run_completed'))
    expect(seen.find(ofType('message_received'))?.data.event.content).toBe('news')
  })

  it('a watcher receives what the model is saying from the beginning, and can resume only after durable events', async () => {
    const { body } = await root.post<SendAnswer>('/v1/sessions', { agent: 'desk', content: 'speak' })
    await spoken.reached
    const isDelta = ({ event }: ServerSent): boolean => event === 'delta'
    const watching = await root.watch(`/v1/sessions/${body.sessionId}/watch`)
    const seen: ServerSent[] = []
    for await (const sent of watching) {
      seen.push(sent)
      if (isDelta(sent)) spoken.open()
      if (ofType('model_completed')(sent)) break
    }
    const delta = seen.find(isDelta)
    expect(delta).toEqual({
      event: 'delta',
      data: { type: 'delta', run: 1, turn: 1, attempt: 1, delta: { type: 'text', index: 0, text: 'Once upon' } },
    })
    expect(seen.find(({ event }) => event === 'status')).not.toHaveProperty('id')
    expect(seen.at(-1)?.data.event.content).toMatchObject([{ text: 'Once upon a time.' }])
  })

  it.each([
    ['/v1/sessions/none/watch', undefined, '404 session_not_found'],
    ['/v1/sessions/SESSION/watch', 'first', '400 unknown_cursor'],
    ['/v1/sessions/SESSION/watch', '-1', '400 unknown_cursor'],
    ['/v1/sessions/SESSION/watch', '999999', '400 unknown_cursor'],
    ['/v1/sessions/SESSION/watch?after=999999', undefined, '400 unknown_cursor'],
    ['/v1/sessions/SESSION/watch?after=-1', undefined, '400 invalid_input'],
    ['/v1/sessions/SESSION/watch?after=x', undefined, '400 invalid_input'],
    ['/v1/events/watch', 'nonsense', '400 invalid_cursor'],
    ['/v1/events/watch?types=nonsense', undefined, '400 invalid_option'],
  ])('a watcher at %s after %s receives an answer instead of a stream: %s', async (path, last, expected) => {
    watched ??= (await talk(root, 'hello')).sessionId
    const { status, body } = await root.get(path.replace('SESSION', watched), last === undefined ? {} : { 'last-event-id': last })
    expect(`${status} ${body.code}`).toBe(expected)
  })
  let watched: string | undefined

  it('a watcher whose key is revoked is soon shut out', async () => {
    ACCESSES.temporary = { identity: 'temporary', scopes: ALL, tenant: 'acme' }
    const temporary = webClient(handler, 'temporary')
    const { sessionId } = await talk(temporary, 'hello')
    const watching = await temporary.watch(`/v1/sessions/${sessionId}/watch`)
    await eventsUntil(watching, ofType('session_started'))
    const again = await temporary.watch(`/v1/sessions/${sessionId}/watch`)
    revoked.add('temporary')
    const seen = await eventsUntil(again, isEnd)
    expect(seen.at(-1)?.data).toMatchObject({ code: 'unauthorized', status: 401 })
  })

  it('a watcher that is moved to another tenant is also shut out', async () => {
    ACCESSES.mover = { identity: 'mover', scopes: ALL, tenant: 'acme' }
    const mover = webClient(handler, 'mover')
    const { sessionId } = await talk(mover, 'hello')
    const watching = [await mover.watch(`/v1/sessions/${sessionId}/watch`), await mover.watch('/v1/events/watch')]
    ACCESSES.mover = { identity: 'mover', scopes: ALL, tenant: 'globex' }
    const ends = await Promise.all(watching.map((one) => eventsUntil(one, isEnd)))
    for (const seen of ends) expect(seen.at(-1)?.data).toMatchObject({ code: 'unauthorized' })
  })

  it('a watcher of the feed sees only its tenant, and continues from a cursor', async () => {
    const stop = new AbortController()
    const mine = await talk(acme, 'hello')
    await talk(globex, 'hello')
    const done = ({ data }: ServerSent): boolean => data.sessionId === mine.sessionId && data.event.type === 'run_completed'
    const seen = await eventsUntil(await acme.watch('/v1/events/watch?types=run_completed', stop), done)
    expect(seen.filter(({ data }) => !data.sessionId.startsWith('acme:'))).toEqual([])
    const next = await talk(acme, 'hello')
    const after = await acme.watch('/v1/events/watch?types=run_completed', { signal: stop.signal, lastEventId: seen.at(-1)?.id ?? '' })
    const [first] = await eventsUntil(after, () => true)
    expect(first?.data.sessionId).toBe(next.sessionId)
    stop.abort()
  })
})

describe('a session that is started with a priority', () => {
  const priority = { priorityKey: 1, fairnessKey: 'acme', fairnessWeight: 2.5 }
  const opening = { agent: 'desk', content: 'hello', priority }

  it('a session that is started with a priority has it in Temporal', async () => {
    const { status, body } = await root.post<SendAnswer>('/v1/sessions', opening)
    expect(status).toBe(201)
    const description = await here.temporal.workflow.getHandle(workflowIdOf(body.sessionId)).describe()
    expect(description.priority).toEqual(priority)
  })

  it('a priority is refused if it is invalid, or if its caller may only send', async () => {
    ACCESSES.customer = { identity: 'customer', scopes: ['read', 'send'], tenant: 'acme' }
    expect(await webClient(handler, 'customer').post('/v1/sessions', opening)).toMatchObject({ status: 403 })
    const impossible = { ...opening, priority: { fairnessWeight: 0 } }
    expect(await root.post('/v1/sessions', impossible)).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
  })

  it('the id of a file at the provider is refused to a tenant’s callers, who could name another tenant’s file', async () => {
    const content = [
      { type: 'text', text: 'What does it say?' },
      { type: 'document', source: { type: 'file', file_id: 'file_011CNha8iCJcU1wXNR6q4V8w' } },
    ]
    const refused = { status: 403, body: { code: 'forbidden', detail: expect.stringContaining('the id of a file at the provider') } }
    expect(await acme.post('/v1/sessions', { agent: 'desk', content })).toMatchObject(refused)
    expect((await acme.post('/v1/sessions/acme:files/messages', { agent: 'desk', content })).status).toBe(403)
    const schedule = { id: `acme:${randomUUID()}`, agent: 'desk', message: content, cron: '0 9 1 1 *', paused: true }
    expect(await acme.post('/v1/schedules', schedule)).toMatchObject(refused)
    // Google's ids are addresses.
    const url = 'https://generativelanguage.googleapis.com/v1beta/files/abc-123'
    for (const block of [
      { type: 'document', source: { type: 'url', url } },
      { type: 'image', source: { type: 'url', url } },
    ])
      expect(await acme.post('/v1/sessions', { agent: 'desk', content: [block] })).toMatchObject(refused)
    expect(await root.post('/v1/sessions', { agent: 'desk', content })).toMatchObject({ status: 201 })
  })

  it('the id of a file at the provider is refused in what a tenant’s callers say that a call has returned', async () => {
    const result = [{ type: 'document', source: { type: 'file', file_id: 'file_011CNha8iCJcU1wXNR6q4V8w' } }]
    const refused = { status: 403, body: { code: 'forbidden', detail: expect.stringContaining('the id of a file at the provider') } }
    const picked = await talk(acme, 'pick')
    const { callId, sessionId } = await pendingOf(acme, picked.sessionId)
    const at = `/v1/sessions/${sessionId}/calls/${callId}/answer`
    expect(await acme.post(at, { result })).toMatchObject(refused)
    const part = { type: 'tool-pick', toolCallId: callId, state: 'output-available', output: result }
    const answer = { id: 'm_1_1', role: 'assistant', metadata: { pawl: { seq: 1 } }, parts: [part] }
    expect(await acme.post('/v1/ui', { id: sessionId, messages: [answer] })).toMatchObject(refused)
    expect((await acme.post(at, { result: [{ file_id: 'not a block' }] })).status).toBe(204)

    const wired = await pendingOf(acme, (await talk(acme, 'wire')).sessionId)
    const resolve = `/v1/sessions/${wired.sessionId}/calls/${wired.callId}/resolve`
    expect(await acme.post(resolve, { resolution: { happened: true, result } })).toMatchObject(refused)
    expect((await root.post(resolve, { resolution: { happened: true, result } })).status).toBe(204)
  })

  it('a heartbeat timeout is refused to callers who may only send, and if it is impossible', async () => {
    ACCESSES.customer = { identity: 'customer', scopes: ['read', 'send'], tenant: 'acme' }
    const slow = { agent: 'desk', content: 'hello', heartbeatTimeout: '1m' }
    expect(await webClient(handler, 'customer').post('/v1/sessions', slow)).toMatchObject({ status: 403 })
    const impossible = { ...slow, heartbeatTimeout: '1s' }
    expect(await root.post('/v1/sessions', impossible)).toMatchObject({ status: 400, body: { code: 'invalid_option' } })
    expect(await root.post('/v1/sessions', slow)).toMatchObject({ status: 201 })
  })
})

describe('a mistaken request', () => {
  const SESSION = '/v1/sessions/acme:mistaken'
  const MISTAKES: [string, string, unknown, string][] = [
    ['POST', '/v1/sessions', {}, '400 invalid_input'],
    ['POST', '/v1/sessions', '', '400 invalid_input'],
    ['POST', '/v1/sessions', '{"agent":', '400 invalid_json'],
    ['POST', '/v1/sessions', '[]', '400 invalid_input'],
    ['POST', '/v1/sessions', 'null', '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: ' ' }, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: [{ type: 'video' }] }, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'nobody', content: 'x' }, '400 unknown_agent'],
    ['POST', '/v1/sessions', { agent: 'the desk', content: 'x' }, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', idleTimeout: '5 weeks' }, '400 invalid_input'],
    ['GET', '/v1/ui/acme:mistaken/messages?cursor=x', undefined, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', contnet: 'y' }, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', id: 'a b' }, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', idleTimeout: '999999d' }, '400 invalid_option'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', metadata: { much: 'x'.repeat(17_000) } }, '400 invalid_metadata'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', context: { much: 'x'.repeat(110_000) } }, '400 invalid_context'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x', messageId: '' }, '400 invalid_input'],
    ['POST', '/v1/sessions', { agent: 'desk', content: 'x'.repeat(2_100_000) }, '413 body_too_large'],
    ['POST', `${SESSION}/messages`, { content: 'x' }, '409 no_agent'],
    ['POST', `${SESSION}/interrupt`, {}, '404 session_not_found'],
    ['POST', `${SESSION}/interrupt`, { reason: 'x'.repeat(5_000) }, '400 invalid_input'],
    ['POST', `${SESSION}/recover`, { strategy: 'pray' }, '400 invalid_input'],
    ['POST', `${SESSION}/calls/t_1_1_0/resolve`, { resolution: { happened: 'yes' } }, '400 invalid_input'],
    ['POST', `${SESSION}/raise`, { maxUsd: -1 }, '400 invalid_input'],
    ['GET', SESSION, undefined, '404 session_not_found'],
    ['GET', '/v1/sessions/%00', undefined, '404 session_not_found'],
    ['GET', '/v1/sessions/globex:s/runs/null', undefined, '404 session_not_found'],
    ['GET', '/v1/sessions/acme:%00', undefined, '400 invalid_input'],
    ['GET', '/v1/sessions/acme:%E0%A4%A', undefined, '400 invalid_input'],
    ['GET', '/v1/sessions?limit=0', undefined, '400 invalid_input'],
    ['GET', '/v1/sessions?limit=1&limit=2', undefined, '400 invalid_input'],
    ['GET', '/v1/sessions?lmit=1', undefined, '400 invalid_input'],
    ['GET', '/v1/sessions?status=asleep', undefined, '400 invalid_input'],
    ['GET', '/v1/sessions?since=yesterday', undefined, '400 invalid_option'],
    ['GET', '/v1/sessions?cursor=xyz', undefined, '400 invalid_cursor'],
    ['GET', '/v1/sessions?tag=%00', undefined, '200 undefined'],
    ['GET', '/v1/usage', undefined, '400 invalid_input'],
    ['GET', '/v1/events?types=nonsense', undefined, '400 invalid_option'],
    ['GET', '/v1/events?after=nonsense', undefined, '400 invalid_cursor'],
    ['GET', `${SESSION}/runs/0`, undefined, '400 invalid_input'],
    ['GET', `${SESSION}/runs/7750098333`, undefined, '400 invalid_input'],
    ['GET', `${SESSION}/blobs/abc`, undefined, '400 invalid_input'],
    ['GET', '/v1/nothing', undefined, '404 route_not_found'],
    ['POST', '/v1/pending', {}, '405 method_not_allowed'],
    ['GET', `${SESSION}/interrupt`, undefined, '405 method_not_allowed'],
  ]
  // The body comes last, because it may be large and the title does not show it.
  it.each(MISTAKES.map(([method, path, body, expected]) => [method, path, expected, body] as const))(
    'a mistaken request: %s %s is answered with %s',
    async (method, path, expected, body) => {
      const answered = method === 'GET' ? await acme.get(path) : await acme.post(path, body)
      expect(`${answered.status} ${answered.body.code}`).toBe(expected)
      if (answered.status === 200) return
      expect(answered.headers.get('content-type')).toBe('application/problem+json')
      // A rule is given in words.
      expect(answered.body.detail).not.toMatch(/pattern|\/\^/)
      expect(answered.body.userMessage).toMatch(/[A-Z].*\. [A-Z].*\.$/)
    },
  )

  it('a mistaken request is answered with the parts that are wrong', async () => {
    const { body } = await acme.post('/v1/sessions', { agent: 'desk', content: 'x', tags: [1], extra: 1 })
    expect(body.parts).toEqual([expect.objectContaining({ at: 'body.tags.0' }), { at: 'body.extra', detail: 'is not a known member' }])
  })

  it.each([
    ['POST', '/v1/sessions', { agent: 'desk' }, 'body.content'],
    ['POST', '/v1/sessions', { content: 'x' }, 'body.agent'],
    ['POST', '/v1/sessions', { agent: 'desk', content: [{ type: 'text' }] }, 'body.content.0.text'],
    ['POST', `${SESSION}/calls/t_1_1_0/answer`, {}, 'body.result'],
    ['POST', `${SESSION}/calls/t_1_1_0/resolve`, {}, 'body.resolution'],
    ['POST', `${SESSION}/calls/t_1_1_0/resolve`, { resolution: { happened: true } }, 'body.resolution.result'],
    ['POST', `${SESSION}/calls/t_1_1_0/approve`, {}, 'body.digest'],
    ['GET', '/v1/usage', undefined, 'query.by'],
  ])('a mistaken request: %s %s with %j is told that %s is missing', async (method, path, sent, at) => {
    const { status, body } = method === 'GET' ? await acme.get(path) : await acme.post(path, sent)
    expect({ status, detail: body.detail, parts: body.parts }).toEqual({
      status: 400,
      detail: `${at}: is missing`,
      parts: [{ at, detail: 'is missing' }],
    })
  })

  it.each([
    [{ content: ' ' }, 'body.content', 'must not be empty'],
    [{ content: 'x', deadline: '5 weeks' }, 'body.deadline', "such as '30s'"],
    [{ content: 'x', deadline: true }, 'body.deadline', "such as '30s'"],
    [{ content: [{ type: 'text', text: 'x', more: 1 }] }, 'body.content.0.more', 'is not a known member'],
    [{ content: 5 }, 'body.content', 'must be text, or a list of blocks of text, images and documents'],
  ])('a mistaken request with %j is told what is wrong at %s: %s', async (sent, at, detail) => {
    const { body } = await acme.post('/v1/sessions', { agent: 'desk', ...sent })
    expect(body.parts).toEqual([{ at, detail: expect.stringContaining(detail) }])
  })

  it('the refusal of a request says what to do over HTTP, not in TypeScript or on a command line', async () => {
    const { sessionId } = await talk(acme, 'pay')
    const at = `/v1/sessions/${sessionId}`
    const detailOf = async (path: string, sent: object) => (await acme.post(path, sent)).body.detail
    expect(await detailOf(`${SESSION}/messages`, { content: 'x' })).toBe(
      `Session "${SESSION.split('/').at(-1)}" is not open. Add \`agent\` to the body to start or resume it.`,
    )
    expect(await detailOf(`${at}/calls/t_9_9_9/approve`, { digest: 'x' })).toBe(
      'The current run has no call "t_9_9_9": `GET /v1/pending` lists the calls that wait.',
    )
    expect(await detailOf(`${at}/recover`, {})).toContain('(`GET /v1/pending`)')
    const { body } = await acme.get(SESSION)
    expect(body.detail).toContain('Check its id, or start it with `POST /v1/sessions`.')
    expect((await acme.get(`${at}/plan?at=99`)).body.detail).toContain(': `GET /v1/sessions/{session}/checkpoints` lists them.')
  })

  it('a mistaken request whose Idempotency-Key and messageId differ is refused', async () => {
    const { status, body } = await acme.post('/v1/sessions', { agent: 'desk', content: 'x', messageId: 'a' }, { 'idempotency-key': 'b' })
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' })
  })
})

describe('the handler', () => {
  it('the handler describes what it accepts in OpenAPI, including the path where it is mounted', async () => {
    const mounted = createHandler({ pawl: here.pawl, authorize, basePath: '/api/pawl', logger: SILENT })
    const { body } = await webClient(mounted, 'reader').get('/api/pawl/openapi.json')
    expect(body).toMatchObject({ openapi: '3.1.0', servers: [{ url: '/api/pawl' }] })
    expect((await webClient(mounted, 'reader').get('/api/pawl/v1/sessions')).status).toBe(200)
    expect(await webClient(mounted, 'reader').get('/v1/sessions')).toMatchObject({
      status: 404,
      body: { detail: expect.stringMatching(/no route \/v1\/sessions: the routes begin with \/api\/pawl\/v1\/.*basePath/) },
    })
    // Where a framework removes the path, as Express's `use` does, the document is right wherever it is.
    expect(handler.openApi).toMatchObject({ servers: [{ url: '.' }] })
    const references = [...new Set(JSON.stringify(body).match(/#\/[\w/]+/g))]
    for (const reference of references) {
      const found = reference
        .slice(2)
        .split('/')
        .reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], body)
      expect(found, reference).toBeDefined()
    }
    const all = operations('s')
    expect(new Set(all.map(({ operation }) => operation)).size).toBe(all.length)
  })

  it('the handler refuses Node’s own request at once, and names nodeListener', () => {
    expect(() => handler({ url: '/', headers: {} } as never)).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining('nodeListener(handler)') }),
    )
  })

  it('the handler is ready while Temporal answers, and not while it drains', async () => {
    const draining = createHandler({ pawl: here.pawl, authorize, logger: SILENT })
    const probe = webClient(draining, '')
    expect(await probe.get('/ready')).toMatchObject({ status: 200, body: { status: 'ready', temporal: true, store: true } })
    draining.drain()
    expect(await probe.get('/ready')).toMatchObject({ status: 503, body: { status: 'draining' } })
    expect((await probe.get('/health')).status).toBe(200)
    expect(await webClient(draining, 'root').get('/v1/events/watch')).toMatchObject({ status: 503, body: { code: 'draining' } })
    expect((await webClient(draining, 'root').get('/v1/sessions')).status).toBe(200)
  })

  it.each([{}, { pawl: {} }, { basePath: 'api' }, { basePath: '/api/' }, { agents: [] }, { maxBodyBytes: 0 }, { authorise: () => null }])(
    'createHandler refuses the options %j',
    async (wrong) => {
      const make = async (): Promise<Handler> =>
        createHandler({
          ...('pawl' in wrong ? {} : { pawl: here.pawl }),
          ...(Object.keys(wrong).length > 0 && { authorize }),
          ...wrong,
        } as never)
      expect(await codeOf(make())).toBe('invalid_option')
    },
  )
})
