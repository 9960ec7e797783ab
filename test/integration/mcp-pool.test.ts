// Connections to an MCP server: one for each user, at most as many as allowed, closed when others need their place.
import { setTimeout as sleep } from 'node:timers/promises'
import { mcp } from 'pawl/tools'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import type { ToolError } from '../../src/agent/errors.ts'
import type { ToolSource } from '../../src/agent/tool.ts'
import { mcpConnection } from '../../src/tools/mcp/connection.ts'
import { rulesOf } from '../../src/tools/mcp/options.ts'
import { SILENT } from '../support/deployment.ts'
import { type HttpShop, startShop } from '../support/mcp/http.ts'
import { until } from '../support/until.ts'

let shop: HttpShop
beforeAll(async () => {
  shop = await startShop()
})
afterAll(() => shop?.close())

type Options = Partial<Parameters<typeof mcp>[0]>

/** A source whose calls are made as the user whom the context names, and how many connections each user has opened since. */
function declare(options: Options = {}): { source: ToolSource; opened(user: string): number } {
  const from = shop.headers.length
  const source = mcp.withTypes<{ context: { user: string } }>()({
    name: 'shop',
    transport: { type: 'http', url: shop.url },
    effects: { '*': 'read', note_order: 'external' },
    auth: ({ context }: { context: { user: string } }) => context.user,
    ...options,
  } as never) as ToolSource
  onTestFinished(() => source.close())
  const opened = (user: string): number =>
    shop.headers
      .slice(from)
      .filter((headers) => headers.get('mcp-method') === 'server/discover' && headers.get('authorization') === `Bearer ${user}`).length
  return { source, opened }
}

async function call(source: ToolSource, user: string, tool: string, input: object): Promise<unknown> {
  const found = (await source.find(`shop__${tool}`, SILENT)) ?? expect.unreachable(`there is no tool ${tool}: ${source.problem()}`)
  const ctx = { signal: new AbortController().signal, log: SILENT, idempotencyKey: '', progress: () => undefined, context: { user } }
  return found.execute?.(input, ctx as never)
}

const find = (source: ToolSource, user: string) => call(source, user, 'find_order', { orderId: 'A7' })
const wait = (source: ToolSource, user: string, ms: number) => call(source, user, 'wait', { ms })
const errorOf = (work: Promise<unknown>): Promise<ToolError> =>
  work.then(
    () => expect.unreachable('it succeeded'),
    (error: ToolError) => error,
  )

it('each user has a connection of their own to an MCP server, which all of their calls share', async () => {
  const { source, opened } = declare()
  await Promise.all(['ann', 'bob', 'ann', 'bob'].map((user) => find(source, user)))
  await find(source, 'ann')
  expect([opened('ann'), opened('bob')]).toEqual([1, 1])
})

it('the least recently used idle connection to an MCP server is closed if another user needs its place', async () => {
  const { source, opened } = declare({ maxConnections: 2 })
  for (const user of ['ann', 'bob', 'ann', 'cleo', 'ann']) await find(source, user)
  expect([opened('ann'), opened('bob'), opened('cleo')]).toEqual([1, 1, 1])
  await find(source, 'bob')
  expect([opened('ann'), opened('bob'), opened('cleo')]).toEqual([1, 2, 1])
})

it('a call waits if all connections to its MCP server are in use, and fails in time if none becomes free', async () => {
  const { source } = declare({ maxConnections: 2, timeout: 1_000 })
  await find(source, 'ann')
  const busy = [wait(source, 'ann', 4_000), wait(source, 'bob', 4_000)]
  for (const one of busy) one.catch(() => undefined)
  await until('both are in use', () => shop.world.calls.filter(({ tool }) => tool === 'wait').length >= 2)
  const error = await errorOf(call(source, 'cleo', 'note_order', { orderId: 'A7', note: 'late' }))
  expect(error).toMatchObject({ code: 'mcp_busy', happened: false })
  expect(error.message).toContain('did not begin')
  // Sooner than the tool's timeout.
  expect(error.message).toContain('were in use for 800 ms')
  expect(shop.world.calls.filter(({ tool }) => tool === 'note_order')).toEqual([])
  await Promise.all(busy)
  await find(source, 'cleo')
})

it('a call that waits for a connection to its MCP server continues as soon as one is free', async () => {
  const { source, opened } = declare({ maxConnections: 1 })
  await find(source, 'ann')
  const first = wait(source, 'ann', 300)
  await sleep(50)
  await Promise.all([first, find(source, 'bob')])
  expect(opened('bob')).toBe(1)
})

it('an idle connection of a user to an MCP server is closed, and the next call opens another', async () => {
  const { source, opened } = declare({ idleTimeout: 50 })
  await find(source, 'ann')
  await sleep(200)
  await find(source, 'ann')
  expect(opened('ann')).toBe(2)
})

it('two users whose calls begin at the same moment share no more connections to an MCP server than allowed', async () => {
  const { source, opened } = declare({ maxConnections: 1 })
  await find(source, 'ann')
  const served = (): number => shop.world.calls.filter(({ tool }) => tool === 'wait').length
  const before = served()
  const both = [wait(source, 'ann', 1_000), wait(source, 'bob', 1_000)]
  await until('the first one is served', () => served() > before)
  await sleep(300)
  expect(served()).toBe(before + 1)
  await Promise.all(both)
  expect(opened('ann') + opened('bob')).toBe(2)
})

it('calls of one user that wait for a connection to an MCP server share the one that the first of them gets', async () => {
  const { source, opened } = declare({ maxConnections: 1 })
  await find(source, 'ann')
  const served = (): number => shop.world.calls.filter(({ tool }) => tool === 'wait').length
  const before = served()
  const first = wait(source, 'ann', 500)
  await until('it is served', () => served() > before)
  let ended = 0
  const others = [1, 2, 3].map(() => wait(source, 'bob', 2_000).finally(() => ended++))
  await until('all are served', () => served() === before + 4)
  expect(ended).toBe(0)
  await Promise.all([first, ...others])
  expect(opened('bob')).toBe(1)
})

it('a connection to an MCP server that is opened while another one closes is kept, and closed like any other', async () => {
  const from = shop.headers.length
  const opened = (): number => shop.headers.slice(from).filter((headers) => headers.get('mcp-method') === 'server/discover').length
  const rules = rulesOf({ name: 'shop', transport: { type: 'http', url: shop.url } })
  const connection = mcpConnection(rules, { key: '' }, { onIdle: () => undefined })
  await connection.list(SILENT)
  const closing = connection.close()
  const listing = connection.list(SILENT)
  await Promise.all([closing, listing])
  await connection.list(SILENT)
  expect(opened()).toBe(2)
  await connection.close()
})
