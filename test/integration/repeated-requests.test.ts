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
  // Webhooks belong to no session: their own tests repeat requests.
  operations = paths.flatMap(([path, { post: one }]) => (one && !path.startsWith('/v1/webhooks') ? [one.operationId] : []))
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
}

const of =
  (...types: SessionEvent['type'][]) =>
  ({ type }: SessionEvent): boolean =>
    types.includes(type)
const at = (what: string) => (id: string) => `/v1/sessions/${id}/${what}`
const digestOf = async (id: string) => (await here.pawl.pending.list({ session: id })).items[0]?.digest ?? expect.fail('nothing waits')
const untilPending = (id: string) => until('it waits', async () => (await here.pawl.pending.list({ session: id })).items.length === 1)

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
    between: (id) => until('it is closed', async () => (await sessionOf(id).state()).status === 'closed'),
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

describe('a request that is sent again with its Idempotency-Key', () => {
  it('a request to any route that changes something may be sent again', () => {
    expect(operations.filter((one) => one !== 'chat').sort()).toEqual(Object.keys(CASES).sort())
  })

  it.each(Object.keys(CASES))(
    'a request %s that is sent again changes nothing, and has the same answer',
    { timeout: 90_000 },
    async (operation) => {
      const { says = 'hello', path = at(''), body = () => ({}), makes, between } = CASES[operation] ?? expect.fail()
      const id = operation === 'openSession' ? '' : `again-${randomUUID()}`
      if (id) await say(id, says)
      if (says === 'pay' || says === 'ask' || says === 'wire') await untilPending(id)
      if (operation === 'unpauseSession') await sessionOf(id).pause()
      const key = randomUUID()
      const sent: object = await Promise.resolve(body(id))
      const first = await post(path(id), sent, key)
      expect(first.status, JSON.stringify(first.body)).toBeLessThan(300)
      const known = id || String(first.body.sessionId)
      await between?.(known)
      const before = (await eventsOf(sessionOf(known))).filter(makes).length
      const second = await post(path(id), sent, key)
      expect(second.status, JSON.stringify(second.body)).toBe(first.status)
      if (operation !== 'resumeSession') expect(second.body).toEqual(first.body)
      // A query is answered after everything that was sent before.
      await sessionOf(known).state()
      expect((await eventsOf(sessionOf(known))).filter(makes)).toHaveLength(before)
    },
  )

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
  expect((await eventsOf(session)).filter(of('rolled_back'))).toHaveLength(1)
})
