// MCP servers that list nothing without the user's sign-in: the agent has the tools that the session's own user sees.
import { randomUUID } from 'node:crypto'
import { auth as authorize } from '@modelcontextprotocol/client'
import { type Agent, defineAgent, type Json } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { mcp, signIn } from 'pawl/tools'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { digestOf, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type ProtectedServer, startProtected, type UserStore, userStore } from '../support/mcp/authorization.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'

interface Context {
  user: string
}

const tokens = new Map<string, string>()
const stores = new Map<string, UserStore>()
function storeFor(user: string): UserStore {
  const store = stores.get(user) ?? userStore(user, 'http://127.0.0.1:9/callback', (token) => void tokens.set(user, token))
  stores.set(user, store)
  return store
}

/** The names of the tools in each request to the model, by session. */
const offered = new Map<string, string[][]>()
const SIGN_IN = 'http://app.example/sign-in'
const DONE = { action: 'accept' } as Json
let here: Deployment
let remote: ProtectedServer
let worker: Awaited<ReturnType<Deployment['startWorker']>>

/** The message names the tools to call, one in each turn. The answer has the last result. */
const model = scripted((request) => {
  offered.set(request.sessionId, [...(offered.get(request.sessionId) ?? []), request.tools.map(({ name }) => name)])
  const [message] = request.messages
  const text = typeof message?.content === 'string' ? message.content : ((message?.content[0] as { text?: string })?.text ?? '')
  const name = text.split(' ')[answersIn(request)]
  if (name === undefined) return JSON.stringify(resultsIn(request).map(({ content, isError }) => [content, isError]))
  return [{ type: 'tool_use', id: `toolu_${answersIn(request)}`, name, input: {} }]
})

function agentsNow(): Agent[] {
  const server = mcp.withTypes<{ context: Context }>()
  const common = { transport: { type: 'http', url: remote.url }, list: 'user' } as const
  const token = server({
    name: 'token',
    ...common,
    effects: { whoami: 'read' },
    auth: ({ context: { user } }, { refused }) => (refused ? undefined : tokens.get(user)) ?? signIn(`${SIGN_IN}?user=${user}`),
  })
  const sdk = server({
    name: 'sdk',
    ...common,
    effects: { whoami: 'read' },
    auth: ({ context: { user } }) => ({ provider: storeFor(user) }),
  })
  const broken = server({
    name: 'broken',
    ...common,
    auth() {
      throw new Error('The vault is sealed.')
    },
  })
  const approved = server({
    name: 'approved',
    ...common,
    effects: { whoami: { effect: 'external', approval: true } },
    auth: ({ context: { user } }, { refused }) => (refused ? undefined : tokens.get(user)) ?? signIn(`${SIGN_IN}?user=${user}`),
  })
  const agent = (name: string, tools: unknown[], more = {}) =>
    defineAgent({ name, instructions: '', tools, model, ...more } as never) as Agent
  return [
    agent('all', [token, sdk, broken]),
    agent('selecting', [token], { activeTools: () => ['token__whoami'] }),
    agent('approving', [approved]),
  ]
}

beforeAll(async () => {
  remote = await startProtected({ protectsAll: true })
  here = await deploy()
  worker = await here.startWorker({ agents: agentsNow() })
})
afterAll(async () => {
  await here?.stop()
  await remote?.close()
})

async function play(message: string, user: string, agent = 'all') {
  const id = `user-lists-${randomUUID()}`
  const session = here.pawl.session(id, { agent, context: { user } }) as SessionHandle
  const run = await session.send(message)
  return {
    session,
    run,
    requests: () => offered.get(id) ?? [],
    results: async () => JSON.parse((await run.result({ timeout: 30_000 })).text) as [content: string, isError: boolean][],
  }
}

/** Does what the user's browser and the application's callback do. */
async function signsIn(user: string, url?: string): Promise<void> {
  const store = storeFor(user)
  if (url === undefined) await authorize(store, { serverUrl: remote.url })
  const answer = await fetch(`${url ?? store.redirectedTo.at(-1)}&user=${user}`, { redirect: 'manual' })
  const code = new URL(answer.headers.get('location') ?? expect.fail(`no callback: ${answer.status}`)).searchParams.get('code') ?? ''
  expect(await authorize(store, { serverUrl: remote.url, authorizationCode: code })).toBe('AUTHORIZED')
}

const urlOf = (waiting: unknown): string | undefined => (waiting as { question?: { url?: string } } | undefined)?.question?.url

describe('a server that lists its tools for each user', () => {
  it('a server that lists its tools for each user offers a user who has not signed in one tool, which asks for that; then the run goes on with the tools of the user', async () => {
    const { session, run, requests, results } = await play('token__user_sign_in token__whoami', 'ann')
    const [waiting] = await pendingOf(run)
    expect(waiting).toMatchObject({ kind: 'question', question: { from: 'token', url: `${SIGN_IN}?user=ann` } })
    expect(requests()[0]?.filter((name) => name.startsWith('token__'))).toEqual(['token__user_sign_in'])
    await signsIn('ann')
    await session.answer('t_1_1_0', DONE)
    expect(await results()).toEqual([['ann', false]])
    const [signedIn] = ofType(await eventsOf(session), 'tool_completed')
    expect(signedIn?.value).toBe('The user has signed in to token. Its tools are available now.')
    expect(requests()[1]?.filter((name) => name.startsWith('token__'))).toEqual(['token__whoami'])
  })

  it('a server that lists its tools for each user asks a user who was not signed in after all again, and tells the model of one who refuses', async () => {
    const { session, run, results } = await play('token__user_sign_in', 'eve')
    await pendingOf(run)
    await session.answer('t_1_1_0', DONE)
    await until('it asks again', async () => ofType(await eventsOf(session), 'answer_requested').length === 2)
    await session.answer('t_1_1_0', { action: 'decline' })
    expect(await results()).toEqual([[expect.stringContaining('did not sign in'), true]])
  })

  it('a server that lists its tools for each user lists for each session what its own user sees', async () => {
    for (const user of ['boss', 'bob']) await signsIn(user)
    const [boss, bob] = await Promise.all(['boss', 'bob'].map((user) => play('token__whoami', user)))
    expect([await boss?.results(), await bob?.results()]).toEqual([[['boss', false]], [['bob', false]]])
    const ofToken = (requests: string[][] | undefined) => requests?.[0]?.filter((name) => name.startsWith('token__'))
    expect(ofToken(boss?.requests())).toEqual(['token__whoami', 'token__dismiss'])
    expect(ofToken(bob?.requests())).toEqual(['token__whoami'])
  })

  it('a server that lists its tools for each user lets a provider of the MCP SDK start the sign-in', async () => {
    const { session, run, requests, results } = await play('sdk__user_sign_in sdk__whoami', 'dora')
    const [waiting] = await pendingOf(run)
    expect(new URL(urlOf(waiting) ?? '').searchParams.get('code_challenge_method')).toBe('S256')
    await signsIn('dora', urlOf(waiting))
    await session.answer('t_1_1_0', DONE)
    expect(await results()).toEqual([['dora', false]])
    expect(requests()[1]).toContain('sdk__whoami')
  })

  it('a server that lists its tools for each user asks for a sign-in again once the server has refused the token, although the tools are known', async () => {
    await signsIn('gil')
    expect(await (await play('token__whoami', 'gil')).results()).toEqual([['gil', false]])
    remote.revoke('gil')
    const { session, run, results } = await play('token__whoami', 'gil')
    expect(urlOf((await pendingOf(run))[0])).toBe(`${SIGN_IN}?user=gil`)
    await signsIn('gil')
    await session.answer('t_1_1_0', DONE)
    expect(await results()).toEqual([['gil', false]])
  })

  it('a server that lists its tools for each user offers the sign-in to an agent that selects a tool of the server', async () => {
    const { session, requests, run } = await play('token__user_sign_in', 'hal', 'selecting')
    await pendingOf(run)
    expect(requests()).toEqual([['token__user_sign_in']])
    await session.interrupt()
  })

  it('a server that lists its tools for each user is told to be unavailable if auth fails, and the session goes on', async () => {
    const { requests, results } = await play('broken__whoami', 'ann')
    expect(await results()).toEqual([[expect.stringContaining('The vault is sealed.'), true]])
    expect(requests()[0]?.some((name) => name.startsWith('broken__'))).toBe(false)
  })

  it('a server that lists its tools for each user asks the user of a call that another process resolved, if nobody is signed in there any more', async () => {
    await signsIn('ida')
    const first = await play('approved__whoami', 'ida', 'approving')
    const other = await play('approved__whoami', 'ida', 'approving')
    const digests = [await digestOf(first.run, 't_1_1_0'), await digestOf(other.run, 't_1_1_0')]
    await worker.stop()
    remote.revoke('ida')
    tokens.delete('ida')
    worker = await here.startWorker({ agents: agentsNow() })
    for (const [index, { session, run }] of [first, other].entries()) {
      await session.approve('t_1_1_0', { digest: digests[index] ?? '', by: 'ann' })
      await until('it asks', async () => ofType(await eventsOf(session), 'answer_requested').length === 1)
      expect(urlOf((await pendingOf(run))[0])).toBe(`${SIGN_IN}?user=ida`)
    }
    await other.session.answer('t_1_1_0', { action: 'cancel' })
    expect(await other.results()).toEqual([[expect.stringContaining('did not sign in'), true]])
    await signsIn('ida')
    await first.session.answer('t_1_1_0', DONE)
    expect(await first.results()).toEqual([['ida', false]])
    expect(remote.callers.filter((user) => user === 'ida')).toHaveLength(1)
  })
})
