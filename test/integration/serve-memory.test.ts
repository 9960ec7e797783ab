// The memory of `pawl serve`: whatever one caller requests, and however little of it that caller reads, others are answered.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { defineAgent, defineTool } from 'pawl'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { PawlChatTransport } from 'pawl/ui'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { deploy, type Deployment } from '../support/deployment.ts'
import { saidIn } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { type WebClient, webClient } from '../support/web.ts'
import { pawl, type PawlProcess } from './cli/processes.ts'

const VALUE = 900_000
/** In each of the two answers. */
const CALLS = size(20, 100)
/** Far less than what one request for the whole conversation would need, and enough for the requests of all. */
const HEAP_MB = 160
const MAX_RSS_MB = 350

const input = z.object({ n: z.int() })
/** Answers each message with calls whose results are large, and then with a word. */
const hoarder = defineAgent({
  name: 'hoarder',
  instructions: 'Fetch.',
  model: scripted(async (request): Promise<ScriptedAnswer> => {
    const said = saidIn(request)
    if (request.messages.at(-1)?.content !== said.at(-1)) return 'done'
    return Array.from({ length: CALLS }, (_, n) => ({
      type: 'tool_use',
      id: `toolu_${n}`,
      name: 'fetch',
      input: { n: said.length * 1_000 + n },
    }))
  }),
  tools: [defineTool({ name: 'fetch', description: 'Fetches.', input, effect: 'read', execute: ({ n }) => `${n} ${'x'.repeat(VALUE)}` })],
})

const schema = `memory_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const id = `mallory:${randomUUID()}`
let here: Deployment
let server: PawlProcess
let url: string
let mallory: { key: string; client: WebClient }
let alice: WebClient
const sockets: Socket[] = []

beforeAll(async () => {
  here = await deploy({ schema })
  await here.startWorker({ agents: [hoarder] })
  const session = here.pawl.session(id, { agent: 'hoarder' })
  for (const text of ['first', 'second']) await (await session.send(text)).result()
  const { temporalAddress, namespace, databaseUrl } = inject('stack')
  server = pawl(
    [
      'serve',
      '--port',
      '0',
      '--json',
      '--schema',
      schema,
      '--task-queue',
      here.taskQueue,
      '--rate-limit',
      '0',
      '--request-memory',
      '128000000',
    ],
    {
      cwd: '/',
      env: {
        TEMPORAL_ADDRESS: temporalAddress,
        TEMPORAL_NAMESPACE: namespace,
        DATABASE_URL: databaseUrl,
        NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}`,
      },
    },
  )
  url = String((await server.event('serving')).url)
  const keyOf = async (name: string) => (await here.pawl.apiKeys.create({ name, tenant: name, scopes: ['send', 'read'] })).key
  const key = await keyOf('mallory')
  mallory = { key, client: webClient(fetch, key, url) }
  alice = webClient(fetch, await keyOf('alice'), url)
}, 300_000)
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  server?.kill('SIGKILL')
  await server?.ended
  await here?.stop()
  const database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  await database.query(`drop schema if exists ${schema} cascade`)
  await database.end()
})

/** The most memory that the server has ever had, in MB. */
function peakMb(): number {
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024)
}

/** Sends a request and reads nothing of the answer. */
function unread(path: string): void {
  const { port, hostname, host } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  socket.pause()
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${mallory.key}\r\n\r\n`)
  sockets.push(socket)
}

describe.runIf(process.platform === 'linux')('a caller with a large conversation', () => {
  it('large conversations are sent in pages that fit into the server’s memory, even to many readers at the same time', async () => {
    const paths = ['ui/ID/messages', 'sessions/ID/messages?limit=1000', 'sessions/ID/events', 'tool-calls?limit=1000', 'events?limit=1000']
    const asked = paths.flatMap((path) => Array.from({ length: 8 }, () => `/v1/${path.replace('ID', encodeURIComponent(id))}`))
    const answers = await Promise.all(asked.map(async (path) => ({ path, ...(await mallory.client.get(path)) })))
    for (const { path, status, body } of answers) {
      expect([path, [200, 429].includes(status)]).toEqual([path, true])
      expect(JSON.stringify(body).length, path).toBeLessThan(6_000_000)
    }
    // How many are answered at once depends on the machine. Alone, each is.
    expect(answers.filter(({ status }) => status === 200)).not.toEqual([])
    for (const path of new Set(asked)) expect([path, (await mallory.client.get(path)).status]).toEqual([path, 200])
    expect((await alice.get('/v1/sessions')).status).toBe(200)
    expect(peakMb()).toBeLessThan(MAX_RSS_MB)
  })

  it('a page of `useChat` can reload a large conversation completely', async () => {
    const transport = new PawlChatTransport({ api: url, headers: { authorization: `Bearer ${mallory.key}` } })
    const newest = await transport.messagesPage(id)
    expect(newest.messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
    const messages = await transport.messages(id)
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant'])
    const parts = messages.flatMap((message) => message.parts.filter(({ type }) => type === 'tool-fetch'))
    expect(parts).toHaveLength(2 * CALLS)
    // Each answer is larger than a page by itself: its newest results are whole, and of the others there is the beginning.
    const lengths = parts.map((part) => JSON.stringify('output' in part && part.output).length)
    expect(Math.max(...lengths)).toBeGreaterThan(VALUE)
    expect(lengths.filter((length) => length < 3_000).length).toBeGreaterThan(CALLS)
    expect(parts.every((part) => 'state' in part && part.state === 'output-available')).toBe(true)
  })

  it('a client that never reads its answers and streams takes no memory from other clients', async () => {
    const session = encodeURIComponent(id)
    for (let n = 0; n < 60; n++) {
      unread(`/v1/ui/${session}/messages`)
      unread(`/v1/sessions/${session}/watch?after=0`)
      unread(`/v1/ui/${session}/stream`)
      unread(`/v1/events/watch`)
    }
    for (let times = 0; times < 5; times++) {
      await sleep(1_000)
      expect((await alice.get('/v1/sessions')).status).toBe(200)
    }
    expect(peakMb()).toBeLessThan(MAX_RSS_MB)
  })
})
