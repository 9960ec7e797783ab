// Sessions with the tools of MCP servers: published ones over stdio, and a shop over HTTP.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, type JsonObject, type ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { mcp } from 'pawl/tools'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { digestOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type HttpShop, startShop } from '../support/mcp/http.ts'
import { answersIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'

const published = (name: string): string =>
  fileURLToPath(new URL(`../../node_modules/@modelcontextprotocol/${name}/dist/index.js`, import.meta.url))

/** What each session's model was asked with, newest last. */
const requests = new Map<string, ModelRequest[]>()

/** The first block of the message says which tools to call, one after another. The answer is what they returned. */
const model = scripted((request) => {
  requests.set(request.sessionId, [...(requests.get(request.sessionId) ?? []), structuredClone(request)])
  const blocks = request.messages.map(({ content }) => (typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content))
  const [message] = blocks[0] ?? []
  const calls = JSON.parse(message?.type === 'text' ? message.text : '[]') as Calls
  const call = calls[answersIn(request)]
  if (call) return [{ type: 'tool_use', id: `toolu_${answersIn(request)}`, name: call[0], input: call[1] }]
  return JSON.stringify(blocks.flat().flatMap((block) => (block.type === 'tool_result' ? [block.content] : [])))
})

let here: Deployment
let shop: HttpShop
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-mcp-'))
  shop = await startShop()
  here = await deploy()
  Object.assign(process.env, { SHOP_URL: shop.url, SHOP_TOKEN: 'secret', FILES: folder })
  const guide = await import('../guides/mcp.ts')
  const stdio = (server: string, args: string[] = [], env = {}) =>
    ({ type: 'stdio', command: process.execPath, args: [published(server), ...args], env }) as const
  const tools = [
    mcp({
      name: 'everything',
      transport: stdio('server-everything'),
      effects: { '*': 'read' },
      tools: { allow: ['echo', 'get-*', 'trigger-long*'] },
    }),
    mcp({
      name: 'memory',
      transport: stdio('server-memory', [], { MEMORY_FILE_PATH: join(folder, 'memory.json') }),
      effects: { read_graph: 'read', 'create_*': 'idempotent' },
    }),
    guide.shop,
    guide.files,
  ]
  const agent = defineAgent({ name: 'mcp', instructions: '', tools, model }) as Agent
  await here.startWorker({ agents: [agent] })
})
afterAll(async () => {
  await here?.stop()
  await shop?.close()
  await rm(folder, { recursive: true })
})

type Calls = [tool: string, input: JsonObject][]

async function play(calls: Calls) {
  const id = `mcp-${randomUUID()}`
  const session = here.pawl.session(id, { agent: 'mcp' }) as SessionHandle
  const run = await session.send(JSON.stringify(calls))
  return {
    session,
    run,
    requests: (): ModelRequest[] => requests.get(id) ?? [],
    results: async () => JSON.parse((await run.result()).text) as unknown[],
  }
}

describe.concurrent('a session with the tools of MCP servers', { timeout: 60_000 }, () => {
  it('a session calls published MCP servers over stdio, each as its rule says', async () => {
    const path = join(folder, 'hello.txt')
    const { session, results } = await play([
      ['everything__echo', { message: 'hello' }],
      ['files__write_file', { path, content: 'hello' }],
      ['files__read_text_file', { path }],
      ['memory__create_entities', { entities: [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }] }],
      ['memory__read_graph', {}],
    ])
    expect(await results()).toEqual([
      'Echo: hello',
      expect.stringContaining('Successfully wrote'),
      'hello',
      expect.stringContaining('Ann'),
      expect.stringContaining('likes tea'),
    ])
    expect(await readFile(path, 'utf8')).toBe('hello')
    const resolved = ofType(await eventsOf(session), 'tool_issued').map(({ tool, effect }) => [tool, effect])
    expect(resolved).toEqual([
      ['everything__echo', 'read'],
      ['files__write_file', 'idempotent'],
      ['files__read_text_file', 'read'],
      ['memory__create_entities', 'idempotent'],
      ['memory__read_graph', 'read'],
    ])
  })

  it('an image from an MCP server is a block that the model sees', async () => {
    const { requests: asked, results } = await play([['everything__get-tiny-image', {}]])
    await results()
    expect(JSON.stringify(asked().at(-1)?.messages)).toContain('"media_type":"image/png"')
  })

  it('a session asks a person before it calls an MCP tool that no rule names', async () => {
    const { session, run, results } = await play([['shop__note_order', { orderId: 'A7', note: 'gift' }]])
    await session.approve('t_1_1_0', { digest: await digestOf(run, 't_1_1_0'), by: 'ann' })
    expect(await results()).toEqual(['noted gift'])
  })

  it('arguments that do not match the schema are refused before the MCP server sees them', async () => {
    const { results } = await play([['shop__find_order', { orderId: 7 }]])
    expect(await results()).toEqual([expect.stringContaining("do not match the tool's schema")])
  })

  it('the model gets the error result of an MCP read; after one of an external MCP tool, verify says what happened', async () => {
    const { results } = await play([
      ['files__read_text_file', { path: join(folder, 'missing.txt') }],
      ['shop__create_refund', { orderId: 'shaky', cents: 100 }],
    ])
    const [missing, shaky] = (await results()) as string[]
    expect(missing).toContain('ENOENT')
    expect(JSON.parse(shaky ?? '')).toMatchObject({ cents: 100 })
    const shaken = shop.world.calls.filter(({ tool, args }) => tool === 'create_refund' && (args as JsonObject).orderId === 'shaky')
    expect(shaken).toMatchObject([{ key: expect.stringMatching(/./) }])
    expect(shop.headers.every((headers) => headers.get('authorization') === 'Bearer secret')).toBe(true)
  })

  it('a session shows the progress of a call to an MCP server', async () => {
    const { session, results } = await play([['everything__trigger-long-running-operation', { duration: 1, steps: 2 }]])
    await results()
    expect(ofType(await eventsOf(session), 'tool_progress')[0]).toMatchObject({ value: { total: 2 } })
  })
})

describe('a server that changes', () => {
  it('a call whose MCP tool gets another schema while it waits is not sent with the old arguments', async () => {
    const { session, run, results } = await play([['shop__note_order', { orderId: 'changed', note: 'gift' }]])
    const digest = await digestOf(run, 't_1_1_0')
    Object.assign(shop.world, { hasAuthors: true, extra: ['find_changed'] })
    shop.announce()
    // The executor has read the new list.
    await until('the new tool is known', async () => (await (await play([['shop__find_changed', {}]])).results())[0] === 'find_changed')
    await session.approve('t_1_1_0', { digest, by: 'ann' })
    expect(await results()).toEqual([expect.stringContaining("do not match the tool's schema")])
    expect(shop.world.calls.some(({ args }) => (args as JsonObject).orderId === 'changed')).toBe(false)
  })
})

describe('a server that is away', () => {
  it('calls to an unavailable MCP server fail as attempts, the session continues, and later calls succeed once it is back', async () => {
    const url = new URL(shop.url)
    await (await play([['shop__find_order', { orderId: 'before' }]])).results()
    await shop.close()
    const { session, results } = await play([['shop__find_order', { orderId: 'away' }]])
    await until('an attempt has failed', async () => ofType(await eventsOf(session), 'tool_attempt_failed').length > 0)
    shop = await startShop('modern', Number(url.port))
    expect(await results()).toEqual([expect.stringContaining('away')])
    expect(shop.world.calls).toMatchObject([{ tool: 'find_order', args: { orderId: 'away' } }])
  })
})

it('the guide to MCP servers has the example that runs here', async () => {
  const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8')
  const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(await read('test/guides/mcp.ts')) ?? []
  const printed = snippet.trimEnd().replace('../../src/tools/index.ts', 'pawl/tools')
  expect(await read('docs/mcp.md')).toContain(`\`\`\`ts\n${printed}\n\`\`\``)
})
