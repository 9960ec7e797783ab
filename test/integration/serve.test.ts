// `pawl serve` and `pawl keys` as an operator uses them: keys, tenants, limits, CORS, and shutdown.
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { nodeListener } from 'pawl/service'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { deploy, type Deployment } from '../support/deployment.ts'
import { inOrder, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { eventsUntil, webClient } from '../support/web.ts'
import { pawl, type PawlProcess, runPawl } from './cli/processes.ts'

const schema = `serve_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const player = stage()
let here: Deployment
let database: pg.Client
let folder: string
let server: PawlProcess
let url: string
const servers: PawlProcess[] = []

function env(): Record<string, string> {
  const { temporalAddress, namespace, databaseUrl } = inject('stack')
  return { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
}

async function run(...args: string[]) {
  return runPawl([...args, '--schema', schema], { cwd: folder, env: env() })
}

async function newKey(name: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run('keys', 'create', name, ...args)
  expect(stderr).toMatch(/not shown again/)
  expect(code).toBe(0)
  return stdout.trim()
}

async function serve(...args: string[]): Promise<{ server: PawlProcess; url: string }> {
  const started = pawl(['serve', '--port', '0', '--json', '--schema', schema, '--task-queue', here.taskQueue, ...args], {
    cwd: folder,
    env: env(),
  })
  servers.push(started)
  return { server: started, url: String((await started.event('serving')).url) }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-serve-'))
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  here = await deploy({ schema })
  await here.startWorker({ agents: [player.agent] })
  // The worker creates the tables.
  await (await player.play(here.pawl, {}).session.send('hello')).result()
  await until('the tables are there', () => here.pawl.apiKeys.list())
  ;({ server, url } = await serve(
    ...[
      '--rate-limit',
      '0',
      '--cors-origin',
      'https://app.example',
      '--agents',
      'player',
      '--drain-delay',
      '1s',
      '--reauthorize-every',
      '1s',
    ],
  ))
})
afterAll(async () => {
  for (const one of servers) one.kill('SIGKILL')
  await Promise.all(servers.map(({ ended }) => ended))
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await rm(folder, { recursive: true, force: true })
})

describe('a key', () => {
  it('a key grants its scopes within its tenant, and sets the context of the sessions that it starts', async () => {
    const id = `acme:${randomUUID()}`
    player.play(here.pawl, {}, { id })
    const key = await newKey('frontend', '--tenant', 'acme', '--context', '{"tenantId":"acme"}')
    const client = webClient(fetch, key, url)
    const sent = await client.post('/v1/sessions', { agent: 'player', content: 'hello', id, context: { tenantId: 'globex' } })
    expect(sent).toMatchObject({ status: 201, body: { sessionId: id } })
    expect((await client.get(`/v1/sessions/${id}/messages/${sent.body.messageId}/run`)).body).toMatchObject({ status: 'completed' })
    expect((await client.get(`/v1/sessions/${id}/state`)).body).toMatchObject({ context: { tenantId: 'acme' }, tags: ['tenant:acme'] })
    expect((await client.post(`/v1/sessions/${id}/rollback`, { run: 1 })).status).toBe(403)
    expect((await client.get('/v1/sessions/globex:1')).status).toBe(404)
    expect((await client.post('/v1/sessions', { agent: 'stranger', content: 'x' })).body).toMatchObject({ code: 'unknown_agent' })
  })

  it('a key is stored only as a digest, and listed without its secret', async () => {
    const key = await newKey('secretive', '--scopes', 'read,operate')
    const { stdout } = await run('keys', 'list', '--json')
    expect(stdout).toContain('"name":"secretive","scopes":["read","operate"]')
    // A secret may itself contain underscores.
    const secret = key.slice(-43)
    expect(stdout).not.toContain(secret)
    const { rows } = await database.query(`select * from ${schema}.api_keys`)
    expect(JSON.stringify(rows)).toContain('secretive')
    expect(JSON.stringify(rows)).not.toContain(secret)
  })

  it('a key is refused if it differs in a single character', async () => {
    const key = await newKey('exact')
    expect((await webClient(fetch, key, url).get('/v1/sessions')).status).toBe(200)
    const last = key.at(-3) === 'A' ? 'B' : 'A'
    for (const wrong of [`${key.slice(0, -3)}${last}${key.slice(-2)}`, key.slice(0, -1), `${key}A`, key.toUpperCase(), 'pawl_', '']) {
      expect((await webClient(fetch, wrong, url).get('/v1/sessions')).status, wrong).toBe(401)
    }
  })

  it('a key that signs in to the console is read from a small body, because anyone may send one', async () => {
    const signIn = (body: string) =>
      fetch(`${url}/console/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', origin: url },
        body,
      })
    const key = await newKey('visitor', '--scopes', 'read')
    expect((await signIn(JSON.stringify({ key }))).status).toBe(204)
    const refused = await signIn(JSON.stringify({ key: 'x'.repeat(100_000) }))
    expect({ status: refused.status, code: ((await refused.json()) as { code: string }).code }).toEqual({
      status: 413,
      code: 'body_too_large',
    })
    expect((await signIn('null')).status).toBe(400)
  })

  it('a key no longer grants access after it is revoked, and its open streams end', async () => {
    const key = await newKey('short-lived')
    const client = webClient(fetch, key, url)
    expect((await client.get('/v1/sessions')).status).toBe(200)
    const watching = eventsUntil(await client.watch('/v1/events/watch'), ({ event }) => event === 'end')
    const id = key.split('_')[1] ?? ''
    const { stdout } = await run('keys', 'revoke', id)
    expect(stdout).toBe(`Key ${id} of short-lived is revoked.\n`)
    await until('it is refused', async () => (await client.get('/v1/sessions')).status === 401)
    expect((await watching).at(-1)?.data).toMatchObject({ code: 'unauthorized' })
    expect((await here.pawl.apiKeys.list()).find((one) => one.id === id)).toMatchObject({
      revokedAt: expect.any(Date),
      revokedBy: expect.any(String),
    })
  })

  it.each([
    [['create', ''], 'invalid_option'],
    [['create', 'x', '--scopes', 'everything'], 'invalid_option'],
    [['create', 'x', '--tenant', 'a b'], 'invalid_option'],
    [['create', 'x', '--context', '[1]'], 'invalid_usage'],
    [['revoke', 'nobody'], 'invalid_option'],
  ])('pawl keys %j neither creates nor revokes a key', async (args, code) => {
    const { code: exit, stderr } = await run('keys', ...args)
    expect({ exit, says: stderr.includes(code) }, stderr).toEqual({ exit: 1, says: true })
  })

  it('a key is not created from invalid options in code either', async () => {
    expect(await codeOf(here.pawl.apiKeys.create({ name: 'x', scopes: [] }))).toBe('invalid_option')
    expect(await codeOf(here.pawl.apiKeys.create({ name: 'x', tenant: 'acme:' }))).toBe('invalid_option')
  })
})

describe('pages of other origins', () => {
  it('pages of other origins may send requests if the server allows their origin', async () => {
    const ask = (origin: string) =>
      fetch(`${url}/v1/sessions`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' },
      })
    const named = await ask('https://app.example')
    expect(named.status).toBe(204)
    expect(named.headers.get('access-control-allow-origin')).toBe('https://app.example')
    expect(named.headers.get('access-control-allow-headers')).toContain('authorization')
    expect((await ask('https://evil.example')).headers.get('access-control-allow-origin')).toBeNull()
  })
})

describe('rate limits', () => {
  it('rate limits apply per key, and separately to callers without a valid key', async () => {
    const limited = await serve('--rate-limit', '5')
    const [key, other] = [await newKey('busy'), await newKey('calm')]
    const answers = []
    for (let n = 0; n < 7; n++) answers.push(await webClient(fetch, key, limited.url).get('/v1/sessions'))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429])
    expect(answers.at(-1)).toMatchObject({ body: { code: 'rate_limited' } })
    expect(Number(answers.at(-1)?.headers.get('retry-after'))).toBeGreaterThan(0)
    const strangers = await Promise.all(Array.from({ length: 80 }, () => webClient(fetch, 'nobody', limited.url).get('/v1/sessions')))
    expect(strangers.filter(({ status }) => status === 401)).toHaveLength(60)
    expect(strangers.filter(({ status }) => status === 429)).toHaveLength(20)
    expect((await webClient(fetch, other, limited.url).get('/v1/sessions')).status).toBe(200)
    expect((await fetch(`${limited.url}/health`)).status).toBe(200)
    limited.server.kill('SIGTERM')
    limited.server.kill('SIGTERM')
    expect((await limited.server.ended).code).toBe(0)
  })
})

describe('open streams', () => {
  it('open streams do not count against their key’s rate limit, stay open when it is used up, and leave room for other keys', async () => {
    const { url: at } = await serve('--rate-limit', '6', '--reauthorize-every', '200ms', '--max-watches', '8', '--max-watches-per-key', '3')
    const [client, other] = [webClient(fetch, await newKey('many-tabs'), at), webClient(fetch, await newKey('one-tab'), at)]
    let ended = 0
    const watch = async (by: typeof client): Promise<void> => {
      const events = await by.watch('/v1/events/watch')
      // A server that is killed at the end of this file ends them, too.
      void eventsUntil(events, ({ event }) => event === 'end').then(
        () => void (ended += 1),
        () => undefined,
      )
    }
    for (let n = 0; n < 3; n++) await watch(client)
    expect((await client.get('/v1/events/watch')).body).toMatchObject({ code: 'too_many_watches', detail: expect.stringContaining('3') })
    await watch(other)
    // Each of the streams has been checked again at least ten times.
    await sleep(2_500)
    expect((await client.get('/v1/sessions')).status).toBe(200)
    expect((await client.get('/v1/sessions')).status).toBe(200)
    expect((await client.get('/v1/sessions')).body).toMatchObject({ code: 'rate_limited' })
    await sleep(600)
    expect(ended).toBe(0)
  })
})

describe('unknown keys', () => {
  it('unknown keys are limited per address, and do not shut out a valid key that the server has not seen before', async () => {
    const { url: at } = await serve()
    const unknownKey = (): string => `pawl_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('base64url')}`
    const ask = async (key: string): Promise<number> => (await webClient(fetch, key, at).get('/v1/sessions')).status
    for (let n = 0; n < 60; n++) expect(await ask(unknownKey())).toBe(401)
    const valid = await newKey('newcomer')
    const answers = await Promise.all([ask(valid), ...Array.from({ length: 300 }, () => ask(unknownKey()))])
    expect(answers[0]).toBe(200)
    expect(new Set(answers.slice(1))).toEqual(new Set([429]))
  })
})

describe('a malformed request', () => {
  it.each([
    ['an address that is too long', `GET /v1/sessions?cursor=${'x'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, '431 headers_too_large'],
    ['another protocol', 'EHLO x\r\n\r\n', '400 invalid_http'],
  ])('a malformed request is refused with a problem document: %s', async (_, sent, expected) => {
    const answer = await answerTo(sent)
    const [head = '', body = ''] = answer.split('\r\n\r\n')
    expect(head).toContain('Content-Type: application/problem+json')
    const problem = JSON.parse(body) as { status: number; code: string }
    expect(`${problem.status} ${problem.code}`).toBe(expected)
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${problem.status} `))
  })
})

/** Everything that the server sends in reply to these bytes until it closes the connection. */
async function answerTo(sent: string): Promise<string> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(sent)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  return answer
}

describe('a client that does not read', () => {
  it('a client that does not read loses its connection, and the stream ends', async () => {
    let ended = false
    const endless = new ReadableStream<Uint8Array>(
      {
        pull: (to) => to.enqueue(new Uint8Array(100_000).fill(10)),
        cancel: () => {
          ended = true
        },
      },
      { highWaterMark: 0 },
    )
    const answer = async (): Promise<Response> => new Response(endless, { headers: { 'content-type': 'text/event-stream' } })
    const stalling: Server = createServer(nodeListener(answer, { stalledAfter: 200 }))
    await new Promise<void>((resolve) => stalling.listen(0, '127.0.0.1', resolve))
    const socket = connect((stalling.address() as AddressInfo).port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    socket.pause()
    await until('the stream has ended', () => ended)
    socket.destroy()
    await new Promise((resolve) => stalling.close(resolve))
  })
})

// Runs last, because it stops the server.
describe('SIGTERM', () => {
  it('SIGTERM ends streams with a hint, fails the readiness probe, and ends the process', async () => {
    const client = webClient(fetch, await newKey('watcher'), url)
    const watching = await client.watch('/v1/events/watch')
    await eventsUntil(await client.watch('/v1/events/watch'), () => true)
    const rest = eventsUntil(watching, ({ event }) => event === 'end')
    server.kill('SIGTERM')
    expect((await rest).at(-1)?.data).toMatchObject({ code: 'draining', status: 503 })
    const ready = await fetch(`${url}/ready`)
    expect(ready.status).toBe(503)
    expect(await ready.json()).toEqual({ status: 'draining' })
    expect((await client.get('/v1/sessions')).status).toBe(200)
    const { code, stderr } = await server.ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
})

describe('pawl serve', () => {
  const run = (...args: string[]) =>
    pawl(['serve', '--schema', schema, '--task-queue', here.taskQueue, ...args], { cwd: folder, env: env() }).ended

  it('pawl serve says which port is in use, and how to choose another', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    try {
      const { code, stderr } = await run('--port', `${(other.address() as AddressInfo).port}`)
      expect(code).toBe(1)
      expect(stderr).toMatch(/cannot_listen: 127\.0\.0\.1:\d+ is in use.*--port/)
    } finally {
      other.close()
    }
  })

  it('pawl serve starts sessions only with the agents that --agents names', async () => {
    const key = await newKey('starter')
    const open = (at: string, agent: string, id: string) => webClient(fetch, key, at).post('/v1/sessions', { agent, content: 'hello', id })
    const { url: one } = await serve('--agents', 'player')
    const refused = await open(one, 'other', randomUUID())
    expect(refused).toMatchObject({ status: 400, body: { code: 'unknown_agent', detail: expect.stringContaining('choose from player') } })
    const { url: both } = await serve('--agents', 'other, player')
    for (const agent of ['other', 'player']) {
      const { id } = player.play(here.pawl, {})
      expect(await open(both, agent, id)).toMatchObject({ body: { sessionId: id } })
    }
    const { url: any } = await serve()
    expect(await open(any, 'anyone', randomUUID())).toMatchObject({ body: { sessionId: expect.any(String) } })
    expect(await run('--port', '0', '--agents', 'player,,')).toMatchObject({ code: 1, stderr: expect.stringContaining('names of agents') })
  })

  it('pawl serve shows chat pages what an exception says only with --error-texts shown', async () => {
    const { session, id } = player.play(here.pawl, {
      model: inOrder([use('look', 'it')], 'done'),
      look() {
        throw new Error('password of the database')
      },
    })
    await (await session.send('go')).result({ timeout: 30_000 })
    const key = await newKey('page')
    const textsAt = async (at: string) => JSON.stringify((await webClient(fetch, key, at).get(`/v1/ui/${id}/messages`)).body)
    for (const options of [[], ['--error-texts', 'masked']]) {
      const masked = await textsAt((await serve(...options)).url)
      expect(masked).toContain('This call has failed.')
      expect(masked).not.toContain('password')
    }
    expect(await textsAt((await serve('--error-texts', 'shown')).url)).toContain('password of the database')
    expect(await run('--port', '0', '--error-texts', 'all')).toMatchObject({ code: 1, stderr: expect.stringContaining('masked, shown') })
  })

  it.each(['app.example', 'https://app.example/', 'https://app.example/chat'])(
    'pawl serve refuses %s, which browsers never send',
    async (origin) => {
      const { code, stderr } = await run('--port', '0', '--cors-origin', origin)
      expect(code).not.toBe(0)
      expect(stderr).toContain('such as https://app.example')
    },
  )
})
