// An MCP server of a shop, written with the official SDK. It serves both generations of the protocol, over stdio and over HTTP.
import { setTimeout as sleep } from 'node:timers/promises'
import { McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { imageBytes } from '../images.ts'

/** What the shop was told, outside of any connection. */
export interface ShopWorld {
  /** Every call that reached a tool. */
  calls: { tool: string; args: unknown; key: unknown }[]
  /** Refunds by token. */
  refunds: Map<string, { id: string; cents: number }>
  /** Tools that the server lists besides its own. */
  extra: string[]
  /** Whether a note needs an author. */
  hasAuthors?: boolean
  /** Called when a call of `wait` is cancelled. */
  onCancel?(): void
}

export function newWorld(): ShopWorld {
  return { calls: [], refunds: new Map(), extra: [] }
}

const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] })
const orderId = z.string()

/** A server for one connection. */
export function shopServer(world: ShopWorld): McpServer {
  const server = new McpServer({ name: 'shop', version: '1.2.3' }, { capabilities: { tools: { listChanged: true } } })
  const called = (tool: string, args: unknown, ctx: { mcpReq: { _meta?: Record<string, unknown> | undefined } }): void =>
    void world.calls.push({ tool, args, key: ctx.mcpReq._meta?.['dev.pawl/idempotency-key'] })

  server.registerTool(
    'find_order',
    {
      description: 'Finds an order.',
      inputSchema: z.object({ orderId }),
      outputSchema: z.object({ orderId, cents: z.number() }),
      annotations: { readOnlyHint: true },
    },
    (args, ctx) => {
      called('find_order', args, ctx)
      const found = { ...args, cents: 4900 }
      return { ...text(JSON.stringify(found)), structuredContent: found }
    },
  )
  server.registerTool(
    'note_order',
    {
      description: 'Notes.',
      inputSchema: z.object({ orderId, note: z.string(), ...(world.hasAuthors && { author: z.string() }) }),
      annotations: { readOnlyHint: false, idempotentHint: true },
    },
    (args, ctx) => {
      called('note_order', args, ctx)
      return text(`noted ${args.note}`)
    },
  )
  server.registerTool(
    'create_refund',
    {
      description: 'Refunds an order.',
      inputSchema: z.object({ orderId, cents: z.number().int(), client_token: z.string() }),
      annotations: { readOnlyHint: false },
    },
    ({ orderId: order, cents, client_token: token }, ctx) => {
      called('create_refund', { orderId: order, cents }, ctx)
      if (order === 'refused') return { ...text('The order is closed.'), isError: true }
      const refund = { id: `r-${world.refunds.size + 1}`, cents }
      world.refunds.set(token, refund)
      return order === 'shaky' ? { ...text('The connection to the bank was lost.'), isError: true } : text(`refunded as ${refund.id}`)
    },
  )
  server.registerTool(
    'get_refund',
    { description: 'Finds a refund.', inputSchema: z.object({ token: z.string() }), annotations: { readOnlyHint: true } },
    (args, ctx) => {
      called('get_refund', args, ctx)
      return { ...text('see structured content'), structuredContent: { refund: world.refunds.get(args.token) ?? null } }
    },
  )
  server.registerTool('count', { description: 'Counts.', inputSchema: z.object({ to: z.number() }) }, async ({ to }, ctx) => {
    const { _meta, notify } = ctx.mcpReq
    for (let progress = 1; progress <= to; progress++) {
      const progressToken = _meta?.progressToken
      if (progressToken !== undefined)
        await notify({ method: 'notifications/progress', params: { progressToken, progress, total: to, message: `${progress} of ${to}` } })
    }
    return text('counted')
  })
  server.registerTool('wait', { description: 'Waits.', inputSchema: z.object({ ms: z.number() }) }, async ({ ms }, ctx) => {
    called('wait', { ms }, ctx)
    await sleep(ms, undefined, { signal: ctx.mcpReq.signal }).catch(() => world.onCancel?.())
    return text('waited')
  })
  server.registerTool('show', { description: 'Shows.', inputSchema: z.object({}) }, () => ({
    content: [
      { type: 'text', text: 'a picture' },
      { type: 'image', data: imageBytes('image/png').toString('base64'), mimeType: 'image/png' },
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'file:///a.txt', name: 'a.txt', mimeType: 'text/plain' },
      { type: 'resource', resource: { uri: 'file:///b.txt', mimeType: 'text/plain', text: 'the text of b' } },
    ],
  }))
  for (const name of world.extra) server.registerTool(name, { description: 'Further.', inputSchema: z.object({}) }, () => text(name))
  return server
}
