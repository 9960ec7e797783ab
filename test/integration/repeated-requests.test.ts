// Requests that are sent again because their answers were lost: each is carried out once, whatever has happened in between.
import { randomUUID } from 'node:crypto'
import { defineAgent, defineTool, ModelError, type ModelRequest, type SessionEvent } from 'pawl'
import { createHandler } from 'pawl/service'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { answersIn, saidIn } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { type Answered, webClient, type WebClient } from '../support/web.ts'

const input = z.object({ what: z.string() })
const held = gate()
const desk = defineAgent({
  name: 'desk',
  instructions: 'Serve.',
  recovery: { automatic: [] },
  sessionLimits: { maxTotalTokens: 1_000_000 },
  model: scripted((request: ModelRequest): ScriptedAnswer => {
    const newest = saidIn(request).at(-1) ?? ''
    if (newest === 'fail') throw new ModelError('bad_request', 'The model refuses.', { retryable: false })
    const isAnswered = request.messages.at(-1)?.content !== newest
    return ['pay', 'ask', 'hold', 'wire'].includes(newest) && !isAnswered
      ? [{ type: 'tool_use', id: 'toolu_1', name: newest, input: { what: newest } }]
      : `answer ${answersIn(request) + 1}`
  }),
  tools: [
    defineTool({ name: 'pay', description: 'Pays.', input, effect: 'external', approval: true, execute: () => 'paid' }),
    defineTool({ name: 'ask', description: 'Asks.', input, effect: 'read', execute: 'client', output: z.string() }),
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
/** Sessions continue as new soon here. */
let short: Deployment
let root: WebClient
let post: (path: string, body: object, key: string) => Promise<Answered>
let operations: string[]

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [desk] })
  short = await deploy({ history: { events: 100 } })
  await short.startWorker({ agents: [desk] })
  const authorize = () => ({ identity: 'root', scopes: ['read', 'send', 'approve', 'operate'] as const })
  const handler = createHandler({ pawl: here.pawl, authorize, logger: SILENT })
  root = webClient(handler, 'root')
  post = (path, body, key) => root.post(path, body, { 'idempotency-key': key })
  const paths = Object.entries(handler.openApi.paths as Record<string, { post?: { operationId: string } }>)
  // Webhooks, schedules, rules and shared budgets belong to no session: to set or remove one again changes nothing.
  const isOfSession = (path: string): boolean => path.startsWith('/v1/sessions')
  operations = paths.flatMap(([path, { post: one }]) => (one && isOfSession(path) ? [one.operationId] : []))
})
afterAll(async () => {
  held.open()
  await Promise.all([here?.stop(), short?.stop()])
})

const sessionOf = (id: string) => here.pawl.session(id, { agent: 'desk' })

/** Says something in a session and waits until it rests. */
async function say(id: string, text: string): Promise<void> {
  const run = await sessionOf(id).send(text)
  if (text === 'hold') await until('the call is held', async () => (await sessionOf(id).state()).current?.calls.length === 1)
  else await run.settled({ timeout: 30_000 })
}

/** What a route changes, and what happens in the session before the request is sent again. */
interface Case {
  says?: string
  path?(id: string): string
  body?(id: string): object | Promise<object>
  /** The events that show that it was carried out. */
  makes: (event: SessionEvent) => boolean
  between?(id: string): Promise<unknown>
  /** What shows whether the repeated request has changed something, if its events come later. */
  later?(id: string): Promise<unknown>
}

const of =
  (...types: SessionEvent['type'][]) =>
  ({ type }: SessionEvent): boolean =>
    types.includes(type)
const at = (what: string) => (id: string) => `/v1/sessions/${id}/${what}`
const digestOf = async (id: string) => (await here.pawl.pending.list({ session: id })).items[0]?.digest ?? expect.fail('nothing waits')
const untilPending = (id: string) => until('it waits', async () => (await here.pawl.pending.list({ session: id })).items.length === 1)

/** The workflow has ended, too: what is sent from here on is another execution's. */
const untilClosed = (id: string) =>
  until('it is closed', async () => (await here.temporal.workflow.getHandle(`pawl:${id}`).describe()).status.name === 'COMPLETED')

const CASES: Record<string, Case> = {
  openSession: {
    path: () => '/v1/sessions',
    body: () => ({ agent: 'desk', content: 'hello' }),
    makes: of('message_received'),
    between: (id) => until('it is answered', async () => (await sessionOf(id).state()).status === 'idle'),
  },
  sendMessage: {
    path: at('messages'),
    body: () => ({ content: 'again' }),
    makes: (event) => event.type === 'message_received' && event.seq > 3,
  },
  approveCall: {
    says: 'pay',
    path: at('calls/t_1_1_0/approve'),
    body: async (id) => ({ digest: await digestOf(id) }),
    makes: of('approval_decided'),
  },
  denyCall: {
    says: 'pay',
    path: at('calls/t_1_1_0/deny'),
    body: async (id) => ({ digest: await digestOf(id) }),
    makes: of('approval_decided'),
  },
  answerCall: { says: 'ask', path: at('calls/t_1_1_0/answer'), body: () => ({ result: 'red' }), makes: of('answer_received') },
  resolveCall: {
    says: 'wire',
    path: at('calls/t_1_1_0/resolve'),
    body: () => ({ resolution: 'retry' }),
    makes: of('tool_resolved'),
    // The call is made again, and its outcome is unknown again.
    between: (id) => until('it is unknown again', async () => (await eventsOf(sessionOf(id))).filter(of('tool_unknown')).length === 2),
  },
  interruptSession: {
    says: 'hold',
    path: at('interrupt'),
    makes: of('run_interrupted'),
    async between(id) {
      await until('it is interrupted', async () => (await sessionOf(id).state()).status === 'idle')
      await say(id, 'hold')
    },
  },
  regenerate: {
    path: at('regenerate'),
    makes: of('rolled_back'),
    between: (id) => until('it is answered', async () => (await sessionOf(id).state()).status === 'idle'),
  },
  closeSession: {
    path: at('close'),
    makes: of('session_closed'),
    async between(id) {
      await untilClosed(id)
      await say(id, 'and then')
    },
    later: (id) => say(id, 'still open'),
  },
  unscheduleMessage: {
    path: at('messages/m-later/unschedule'),
    async body(id) {
      await sessionOf(id).send('later', { messageId: 'm-later', delay: '1h' })
      await until('it is scheduled', async () => (await sessionOf(id).scheduled()).length === 1)
      return {}
    },
    makes: of('messages_unscheduled'),
    between: (id) => say(id, 'and then'),
  },
  resumeSession: { path: at('resume'), makes: () => false },
  recoverSession: {
    says: 'fail',
    path: at('recover'),
    body: () => ({ strategy: 'continue_run' }),
    makes: of('recovery_started'),
    between: (id) => until('it fails again', async () => (await eventsOf(sessionOf(id))).filter(of('error_entered')).length === 2),
  },
  rollBackSession: { path: at('rollback'), body: () => ({ run: 1 }), makes: of('rolled_back'), between: (id) => say(id, 'and then') },
  forkSession: { path: at('fork'), body: () => ({}), makes: of('run_interrupted'), between: (id) => say(id, 'and then') },
  pauseSession: { path: at('pause'), makes: of('session_paused'), between: (id) => sessionOf(id).unpause() },
  unpauseSession: { path: at('unpause'), makes: of('session_unpaused'), between: (id) => sessionOf(id).pause() },
  raiseLimits: {
    path: at('raise'),
    body: () => ({ maxTotalTokens: 2_000_000, scope: 'session' }),
    makes: of('budget_raised'),
    between: (id) => sessionOf(id).raise({ maxTotalTokens: 3_000_000, scope: 'session' }),
  },
  makeCheckpoint: {
    path: at('checkpoints'),
    body: () => ({ reason: 'the draft' }),
    makes: (event) => event.type === 'checkpoint_made' && event.reasons.includes('the draft'),
    between: (id) => say(id, 'and then'),
  },
}

/** What a client that reuses a key by mistake sends instead. The requests that are missing have no body, or are signals without an answer. */
const OTHERS: Record<string, object> = {
  openSession: { content: 'something else' },
  sendMessage: { content: 'something else' },
  approveCall: { note: 'something else' },
  denyCall: { reason: 'something else' },
  answerCall: { result: 'blue' },
  resolveCall: { resolution: 'skip' },
  regenerate: { reason: 'something else' },
  unscheduleMessage: { reason: 'something else' },
  recoverSession: { strategy: 'abandon' },
  rollBackSession: { reason: 'something else' },
  forkSession: { run: 1 },
  pauseSession: { reason: 'something else' },
  unpauseSession: { reason: 'something else' },
  raiseLimits: { maxTotalTokens: 3_000_000 },
  makeCheckpoint: { reason: 'something else' },
}

describe('a request that is sent again with its Idempotency-Key', () => {
  it('a request to any route that changes something may be sent again', () => {
    expect(operations.toSorted()).toEqual(Object.keys(CASES).sort())
  })

  it.each(Object.keys(CASES))(
    'a request %s that is sent again changes nothing, and has the same answer',
    { timeout: 90_000 },
    (operation) => sendTwice(operation),
  )

  const CLOSES = [
    'approveCall',
    'answerCall',
    'interruptSession',
    'regenerate',
    'rollBackSession',
    'forkSession',
    'raiseLimits',
    'makeCheckpoint',
  ]
  it.each(CLOSES)(
    'a request %s that is sent again after its session has closed, and was opened by a message, changes nothing',
    { timeout: 90_000 },
    (operation) =>
      sendTwice(operation, async (id) => {
        if (operation === 'interruptSession') await sessionOf(id).interrupt()
        await until('its run has ended', async () => (await sessionOf(id).state()).status === 'idle')
        await sessionOf(id).close()
        await untilClosed(id)
        await say(id, operation === 'interruptSession' ? 'hold' : 'and then')
      }),
  )

  it.each(['rollBackSession', 'interruptSession', 'regenerate'])(
    'a request %s that is sent again after its workflow was terminated changes nothing',
    { timeout: 90_000 },
    (operation) =>
      sendTwice(operation, async (id) => {
        if (operation === 'interruptSession') await sessionOf(id).interrupt()
        await until('its run has ended', async () => (await sessionOf(id).state()).status === 'idle')
        await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('an operator')
        await say(id, operation === 'interruptSession' ? 'hold' : 'and then')
      }),
  )

  /** Makes a request of the operation to a session of its own. */
  async function sendOnce(operation: string) {
    const { says = 'hello', path = at(''), body = () => ({}) } = CASES[operation] ?? expect.fail()
    const id = operation === 'openSession' ? '' : `again-${randomUUID()}`
    if (id) await say(id, says)
    if (says === 'pay' || says === 'ask' || says === 'wire') await untilPending(id)
    if (operation === 'unpauseSession') await sessionOf(id).pause()
    const key = randomUUID()
    const sent: object = await Promise.resolve(body(id))
    const first = await post(path(id), sent, key)
    expect(first.status, JSON.stringify(first.body)).toBeLessThan(300)
    return { path: path(id), key, sent, first, known: id || String(first.body.sessionId) }
  }

  async function sendTwice(operation: string, meanwhile?: (id: string) => Promise<void>): Promise<void> {
    const { makes, between, later } = CASES[operation] ?? expect.fail()
    const { path, key, sent, first, known } = await sendOnce(operation)
    await between?.(known)
    await meanwhile?.(known)
    const before = (await eventsOf(sessionOf(known))).filter(makes).length
    const second = await post(path, sent, key)
    expect(second.status, JSON.stringify(second.body)).toBe(first.status)
    if (operation !== 'resumeSession') expect(second.body).toEqual(first.body)
    await later?.(known)
    // A query is answered after everything that was sent before.
    await sessionOf(known).state()
    expect((await eventsOf(sessionOf(known))).filter(makes)).toHaveLength(before)
  }

  it.each(Object.keys(OTHERS))(
    'a request %s whose key was used with another body is refused, changes nothing, and the first one can still be repeated',
    { timeout: 90_000 },
    async (operation) => {
      const { makes } = CASES[operation] ?? expect.fail()
      const { path, key, sent, first, known } = await sendOnce(operation)
      const isMade = async () => (await eventsOf(sessionOf(known))).some(makes)
      if (operation !== 'forkSession') await until('it is carried out', isMade)
      const { seq } = await sessionOf(known).state()
      await until('it is stored', async () => ((await here.pawl.sessions.get(known))?.flushedSeq ?? 0) >= seq)
      const before = (await eventsOf(sessionOf(known))).filter(makes).length
      const second = await post(path, { ...sent, ...OTHERS[operation] }, key)
      expect([second.status, second.body.code], JSON.stringify(second.body)).toEqual([422, 'request_id_reused'])
      const third = await post(path, sent, key)
      expect([third.status, third.body]).toEqual([first.status, first.body])
      await sessionOf(known).state()
      expect((await eventsOf(sessionOf(known))).filter(makes)).toHaveLength(before)
    },
  )

  it('a request whose members are in another order is the same one', async () => {
    const id = `again-${randomUUID()}`
    await say(id, 'hello')
    const key = randomUUID()
    const first = await post(`/v1/sessions/${id}/raise`, { maxTotalTokens: 2_000_000, scope: 'session' }, key)
    expect(first.status).toBe(200)
    expect(await post(`/v1/sessions/${id}/raise`, { scope: 'session', maxTotalTokens: 2_000_000 }, key)).toMatchObject({
      status: 200,
      body: first.body,
    })
    const content = [{ type: 'text', text: 'the same' }]
    const metadata = { a: 1, b: 2 }
    const sent = await post(`/v1/sessions/${id}/messages`, { content, metadata }, 'message-1')
    await until('it is stored', async () => (await here.pawl.messages({ session: id })).items.some((one) => one.messageId === 'message-1'))
    const turned = { metadata: { b: 2, a: 1 }, content: [{ text: 'the same', type: 'text' }] }
    expect(await post(`/v1/sessions/${id}/messages`, turned, 'message-1')).toMatchObject({ status: sent.status, body: sent.body })
  })

  it('two requests at once with the same key and different bodies: one is carried out, and the other is refused', async () => {
    const id = `again-${randomUUID()}`
    await say(id, 'hello')
    const key = randomUUID()
    const raised = [2_000_000, 3_000_000].map((maxTotalTokens) =>
      post(`/v1/sessions/${id}/raise`, { maxTotalTokens, scope: 'session' }, key),
    )
    expect((await Promise.all(raised)).map(({ status }) => status).sort()).toEqual([200, 422])
    expect((await eventsOf(sessionOf(id))).filter(of('budget_raised'))).toHaveLength(1)
  })

  it('the id of a message that a rollback has removed may be used for another one at once', async () => {
    const id = `again-${randomUUID()}`
    await say(id, 'hello')
    await (await sessionOf(id).send('first', { messageId: 'm-1' })).settled({ timeout: 30_000 })
    await until('it is stored', async () => (await here.pawl.messages({ session: id })).items.some((one) => one.messageId === 'm-1'))
    await sessionOf(id).rollback({ message: 'm-1' })
    await (await sessionOf(id).send('second', { messageId: 'm-1' })).settled({ timeout: 30_000 })
    expect((await sessionOf(id).messages()).find(({ messageId }) => messageId === 'm-1')).toMatchObject({ content: 'second' })
  })

  it('a large message is compared with what the store has of the first one', async () => {
    const id = `again-${randomUUID()}`
    const content = [{ type: 'text' as const, text: 'A'.repeat(200_000) }]
    const messageId = 'large'
    await (await sessionOf(id).send(content, { messageId })).settled({ timeout: 30_000 })
    await until('it is stored', async () => (await here.pawl.messages({ session: id })).items.some((one) => one.messageId === messageId))
    await sessionOf(id).send([{ text: 'A'.repeat(200_000), type: 'text' }], { messageId })
    await expect(sessionOf(id).send('A'.repeat(200_001), { messageId })).rejects.toMatchObject({ code: 'request_id_reused' })
  })

  it('a webhook that is created again with its key and another address is refused', async () => {
    const key = randomUUID()
    const first = await post('/v1/webhooks', { url: 'https://example.com/a' }, key)
    expect(await post('/v1/webhooks', { url: 'https://example.com/a' }, key)).toMatchObject({ status: 201, body: first.body })
    const other = await post('/v1/webhooks', { url: 'https://example.com/b' }, key)
    expect([other.status, other.body.code]).toEqual([422, 'request_id_reused'])
    await here.pawl.webhooks.remove(String(first.body.id))
  })

  it('a request of a chat page to regenerate an answer that is sent again shows the answer that it led to', async () => {
    const id = `again-${randomUUID()}`
    await say(id, 'hello')
    const [message] = await sessionOf(id).messages()
    const said = [{ id: message?.messageId, role: 'user', parts: [{ type: 'text', text: 'hello' }] }]
    const request = { id, agent: 'desk', trigger: 'regenerate-message', messages: said }
    const streamOf = async (more: object, key: string): Promise<string> => {
      const path = '/v1/ui?show=steps'
      const headers = { 'content-type': 'application/json', 'idempotency-key': key }
      const sent = new Request(`http://service.test${path}`, { method: 'POST', headers, body: JSON.stringify({ ...request, ...more }) })
      return (await createChat(sent)).text()
    }
    const key = randomUUID()
    const first = await streamOf({}, key)
    expect(first).toContain('"m_2_1"')
    expect(await streamOf({}, key)).toContain('"m_2_1"')
    // Without a key, the answer that the page names has been replaced already.
    expect(await streamOf({ messageId: 'm_1_1' }, randomUUID())).toContain('"m_2_1"')
    expect((await eventsOf(sessionOf(id))).filter(of('rolled_back'))).toHaveLength(1)
  })

  const createChat = (request: Request): Promise<Response> =>
    createHandler({ pawl: here.pawl, authorize: () => ({ identity: 'root', scopes: ['read', 'send', 'operate'] }), logger: SILENT })(
      request,
    )
})

it('a request with an id is carried out once although its session has continued as new in between', { timeout: 90_000 }, async () => {
  const session = short.pawl.session(`again-${randomUUID()}`, { agent: 'desk' })
  await (await session.send('hello')).result({ timeout: 30_000 })
  const first = await session.rollback({ run: 1, requestId: 'back' })
  const workflow = short.temporal.workflow.getHandle(`pawl:${session.id}`)
  const began = (await workflow.describe()).runId
  const continues = async (): Promise<boolean> => (await workflow.describe()).runId !== began
  for (let n = 0; n < 60 && !(await continues()); n++) await (await session.send(`message ${n}`)).result({ timeout: 30_000 })
  expect(await continues()).toBe(true)
  expect(await session.rollback({ run: 1, requestId: 'back' })).toEqual(first)
  await expect(session.rollback({ run: 2, requestId: 'back' })).rejects.toMatchObject({ code: 'request_id_reused' })
  expect((await eventsOf(session)).filter(of('rolled_back'))).toHaveLength(1)
})
