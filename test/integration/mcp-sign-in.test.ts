// Sign-in of each user to an MCP server: a call waits until the session's own user has signed in, and no token is recorded.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { auth as authorize } from '@modelcontextprotocol/client'
import { type Agent, defineAgent, type Json } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { mcp, signIn } from 'pawl/tools'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { digestOf, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type ProtectedServer, startProtected, type UserStore, userStore } from '../support/mcp/authorization.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'

interface Context {
  user: string
}

/** The tokens that the application has stored, by user. */
const tokens = new Map<string, string>()
/** What `auth` was called with. */
const asked: { user: string; refused: boolean }[] = []

const stores = new Map<string, UserStore>()
function storeFor(user: string): UserStore {
  const store = stores.get(user) ?? userStore(user, 'http://127.0.0.1:9/callback', (token) => void tokens.set(user, token))
  stores.set(user, store)
  return store
}

/** All that the worker and the MCP servers logged. */
const logged: string[] = []
const keep = (...line: unknown[]): void => void logged.push(JSON.stringify(line))
const logger = { debug: keep, info: keep, warn: keep, error: keep }

const SIGN_IN = 'http://app.example/sign-in'
let here: Deployment
let remote: ProtectedServer
let redirecting: { origin: string; close(): void }
const elsewhere: (string | undefined)[] = []

/** A server that answers every request with a redirect of its calls to another host. */
async function startRedirecting(): Promise<typeof redirecting> {
  const listen = async (server: Server): Promise<string> => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  const other = createServer((request, response) => {
    elsewhere.push(request.headers.authorization)
    response.end()
  })
  const location = await listen(other)
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (Buffer.concat(chunks).includes('"tools/call"')) return response.writeHead(307, { location }).end()
      void fetch(remote.url, { method: request.method ?? 'GET', headers: headersOf(request.headers), body: Buffer.concat(chunks) }).then(
        async (answer) => {
          response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' })
          response.end(await answer.text())
        },
      )
    })
  })
  const origin = await listen(server)
  return {
    origin,
    close() {
      for (const one of [server, other]) {
        one.closeAllConnections()
        one.close()
      }
    },
  }
}

const headersOf = (headers: object): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (/^(accept|content-type|mcp-.*)$/.test(name) ? [[name, String(value)]] : [])),
  )

beforeAll(async () => {
  remote = await startProtected()
  redirecting = await startRedirecting()
  here = await deploy()
  const server = mcp.withTypes<{ context: Context }>()
  const http = { type: 'http', url: remote.url } as const
  const effects = { whoami: 'external' } as const
  const tools = [
    server({
      name: 'token',
      transport: http,
      effects,
      auth({ context: { user } }, { refused = false }) {
        asked.push({ user, refused })
        const token = tokens.get(user)
        return token === undefined || refused ? signIn(`${SIGN_IN}?user=${user}`) : token
      },
    }),
    server({ name: 'provider', transport: http, effects, auth: ({ context: { user } }) => ({ provider: storeFor(user) }) }),
    server({
      name: 'broken',
      transport: http,
      effects,
      auth({ context: { user } }) {
        if (user === 'throws') throw new Error('The vault is sealed.')
        if (user === 'script') return signIn('javascript:alert(1)')
        return user === 'split' ? 'a\r\nb' : (7 as never)
      },
    }),
    server({
      name: 'redirecting',
      transport: { type: 'http', url: `${redirecting.origin}/mcp` },
      effects,
      auth: () => ({ headers: { authorization: 'Bearer of-the-user' } }),
    }),
  ]
  process.env.MAIL_URL = remote.url
  const { mail } = await import('../guides/mcp-sign-in.ts')
  const model = scripted((request) => {
    if (answersIn(request) > 0) return JSON.stringify(resultsIn(request).map(({ content, isError }) => [content, isError]))
    const [message] = request.messages
    const text = typeof message?.content === 'string' ? message.content : ((message?.content[0] as { text?: string })?.text ?? '')
    return [{ type: 'tool_use', id: 'toolu_1', name: `${text}__whoami`, input: {} }]
  })
  const agent = defineAgent({ name: 'private', instructions: '', tools: [...tools, mail], model } as never) as Agent
  await here.startWorker({ agents: [agent], logger, services: { vault: { tokenOf: async (user: string) => tokens.get(user) } } } as never)
})
afterAll(async () => {
  await here?.stop()
  await remote?.close()
  redirecting?.close()
})

async function play(server: string, user: string) {
  const id = `sign-in-${randomUUID()}`
  const session = here.pawl.session(id, { agent: 'private', context: { user } }) as SessionHandle
  const run = await session.send(server)
  return {
    id,
    session,
    run,
    results: async () => JSON.parse((await run.result({ timeout: 30_000 })).text) as [content: string, isError: boolean][],
  }
}

/** Does what the user's browser and the application's callback do. */
async function signsIn(user: string, store = storeFor(user), url = store.redirectedTo.at(-1) ?? expect.fail('no redirect')): Promise<void> {
  const answer = await fetch(`${url}&user=${user}`, { redirect: 'manual' })
  const callback = new URL(answer.headers.get('location') ?? expect.fail(`no callback: ${answer.status} ${await answer.text()}`))
  const code = callback.searchParams.get('code') ?? expect.fail('no code')
  expect(await authorize(store, { serverUrl: remote.url, authorizationCode: code })).toBe('AUTHORIZED')
}

const done = { action: 'accept' } as Json

/** A history as text, with the contents of its payloads, which are base64 in its JSON. */
function textOf(history: unknown): string {
  const json = JSON.stringify(history)
  return [json, ...[...json.matchAll(/"([A-Za-z0-9+/=]{8,})"/g)].map(([, text = '']) => Buffer.from(text, 'base64').toString())].join('\n')
}

describe('a user who has not signed in to an MCP server', () => {
  it('a call waits for the sign-in that the provider of the MCP SDK starts, and continues as that user', async () => {
    const { session, run, results } = await play('provider', 'ann')
    const [waiting] = await pendingOf(run)
    expect(waiting).toMatchObject({ kind: 'question', question: { from: 'provider', message: 'Sign in to provider.' } })
    const url = waiting?.kind === 'question' ? waiting.question.url : undefined
    expect(new URL(url ?? '').searchParams.get('code_challenge_method')).toBe('S256')
    await signsIn('ann', storeFor('ann'), url)
    await session.answer('t_1_1_0', done, { digest: waiting?.digest ?? '' })
    expect(await results()).toEqual([['ann', false]])
    expect(remote.callers).toEqual(['ann'])
  })

  it('a call waits for the sign-in that auth asks for, and the next call of the user needs none', async () => {
    tokens.delete('ann')
    const first = await play('token', 'ann')
    const [waiting] = await pendingOf(first.run)
    expect(waiting).toMatchObject({ kind: 'question', question: { url: `${SIGN_IN}?user=ann` } })
    await signsIn('ann')
    await first.session.answer('t_1_1_0', done)
    expect(await first.results()).toEqual([['ann', false]])
    const second = await play('token', 'ann')
    expect(await second.results()).toEqual([['ann', false]])
  })

  it('a sign-in of another user does not let the session continue as that user', async () => {
    const { session, run, results } = await play('token', 'bob')
    const [first] = await pendingOf(run)
    await signsIn('ann')
    const before = remote.callers.length
    await session.answer('t_1_1_0', done, { digest: first?.digest ?? '' })
    await until('it asks again', async () => ofType(await eventsOf(session), 'answer_requested').length === 2)
    const [second] = await pendingOf(run)
    expect(second).toMatchObject({ question: { url: `${SIGN_IN}?user=bob` } })
    expect(remote.callers).toHaveLength(before)
    const failed = await play('provider', 'bob')
    await pendingOf(failed.run)
    await signsIn('bob')
    await failed.session.answer('t_1_1_0', { action: 'decline' })
    await session.answer('t_1_1_0', done)
    expect(await results()).toEqual([['bob', false]])
    expect(await failed.results()).toEqual([[expect.stringContaining('did not sign in'), true]])
    expect(ofType(await eventsOf(failed.session), 'tool_failed')).toMatchObject([{ code: 'mcp_sign_in_declined' }])
  })

  it('auth is asked once more if the MCP server refuses its token, and the call waits for a new sign-in', async () => {
    remote.revoke('ann')
    const from = asked.length
    const { session, run, results } = await play('token', 'ann')
    await pendingOf(run)
    expect(asked.slice(from)).toEqual([
      { user: 'ann', refused: false },
      { user: 'ann', refused: true },
    ])
    await signsIn('ann')
    await session.answer('t_1_1_0', done)
    expect(await results()).toEqual([['ann', false]])
  })

  it('the guide to sign-in has the example that runs here, and a call is approved before its user signs in', async () => {
    const { session, run, results } = await play('mail', 'dora')
    await session.approve('t_1_1_0', { digest: await digestOf(run, 't_1_1_0'), by: 'ann' })
    await until('it asks', async () => ofType(await eventsOf(session), 'answer_requested').length === 1)
    expect((await pendingOf(run))[0]).toMatchObject({ question: { url: 'https://app.example/connect/mail?user=dora' } })
    const other = await play('provider', 'dora')
    await pendingOf(other.run)
    await signsIn('dora')
    await other.session.answer('t_1_1_0', done)
    await session.answer('t_1_1_0', done)
    expect(await results()).toEqual([['dora', false]])
    const code = (await readFile(new URL('../guides/mcp-sign-in.ts', import.meta.url), 'utf8'))
      .split('// #region guide\n')[1]
      ?.split('\n// #endregion')[0]
    const docs = await readFile(new URL('../../docs/mcp.md', import.meta.url), 'utf8')
    expect(docs).toContain(code?.replace('../../src/tools/index.ts', 'pawl/tools'))
  })

  it.each(['throws', 'script', 'split', 'number'])(
    'a call fails with mcp_auth_failed, and has not happened, if auth fails: %s',
    async (how) => {
      const { session, results } = await play('broken', how)
      expect((await results())[0]?.[1]).toBe(true)
      expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ code: 'mcp_auth_failed' }])
    },
  )

  it('a redirect to another host carries no credentials of the user', async () => {
    const { session, results } = await play('redirecting', 'ann')
    expect((await results())[0]?.[0]).toContain('where pawl sends neither requests nor credentials')
    expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ code: 'mcp_refused' }])
    expect(elsewhere).toEqual([])
  })

  it('no token of a user is in the history, in Postgres or in the log', async () => {
    const { id, session, run } = await play('token', 'ann')
    await run.result({ timeout: 30_000 })
    const secrets = [...remote.tokens().keys(), ...tokens.values(), 'of-the-user']
    expect(secrets.length).toBeGreaterThan(3)
    const pool = new pg.Pool({ connectionString: inject('stack').databaseUrl, max: 1 })
    try {
      await until('it is stored', async () => (await session.toolCalls())[0]?.status === 'completed')
      const tables = ['events', 'tool_calls', 'messages', 'errors', 'sessions', 'checkpoints']
      const stored = await Promise.all(
        tables.map(async (table) =>
          JSON.stringify((await pool.query(`select row_to_json(t) from pawl.${table} t where session_id like 'sign-in-%'`)).rows),
        ),
      )
      expect(stored[0]).toContain(id)
      const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
      const history = textOf(events)
      expect(history).toContain('whoami')
      for (const text of [...stored, ...logged, history]) for (const secret of secrets) expect(text.includes(secret)).toBe(false)
    } finally {
      await pool.end()
    }
  })
})
