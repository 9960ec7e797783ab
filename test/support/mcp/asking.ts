// An MCP server of protocol 2026-07-28 whose tools ask the user, over HTTP on the loopback interface.
import type { AddressInfo } from 'node:net'
import { type ServerType, serve } from '@hono/node-server'
import { acceptedContent, createMcpHandler, inputRequired, McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'

/** A call that reached a tool. */
export interface AskedCall {
  tool: string
  order: string
  key: unknown
  state: unknown
  responses: unknown
}

/** What the tools were called with, outside of any connection. */
export interface AskingWorld {
  calls: AskedCall[]
  /** Orders that were shipped, in order. */
  shipped: string[]
}

const SIZE = {
  type: 'object' as const,
  properties: { size: { type: 'string' as const, enum: ['S', 'M', 'L'] }, gift: { type: 'boolean' as const } },
  required: ['size'],
}
const sizeQuestion = (message = 'Which size?') => inputRequired.elicit({ message, requestedSchema: SIZE })
const said = (text: string, isError = false) => ({ content: [{ type: 'text' as const, text }], ...(isError && { isError }) })

/** What each `how` asks for that the protocol forbids, or that pawl does not announce. */
const FORBIDDEN: Readonly<Record<string, object>> = {
  nested: form({ address: { type: 'object', properties: { street: { type: 'string' } } } }),
  secret: form({ password: { type: 'string' } }),
  hidden: form({ code: { type: 'string', format: 'password' } }),
  script: { method: 'elicitation/create', params: { mode: 'url', message: 'Click.', url: 'javascript:alert(1)' } },
  sampling: { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } },
  unanswerable: form({ size: { type: 'string' } }, ['colour']),
  long: { method: 'elicitation/create', params: { message: 'x'.repeat(5_000), requestedSchema: SIZE } },
}

function form(properties: object, required: string[] = []): object {
  return { method: 'elicitation/create', params: { message: 'Please.', requestedSchema: { type: 'object', properties, required } } }
}

/** A server for one connection. */
function askingServer(world: AskingWorld): McpServer {
  const server = new McpServer({ name: 'asker', version: '1' })
  for (const tool of ['look', 'glance', 'hold', 'ship', 'send'])
    server.registerTool(
      tool,
      { description: `Does ${tool}.`, inputSchema: z.object({ order: z.string(), how: z.string().optional() }) },
      ({ order, how }, ctx) => {
        const { mcpReq } = ctx
        const state = mcpReq.requestState()
        const responses = mcpReq.inputResponses
        world.calls.push({ tool, order, key: mcpReq._meta?.['dev.pawl/idempotency-key'], state, responses })
        return answerTo(how ?? 'size', { world, order, state: state as string | undefined, responses }) as ReturnType<typeof said>
      },
    )
  return server
}

interface Asked {
  world: AskingWorld
  order: string
  state: string | undefined
  responses: ServerContext['mcpReq']['inputResponses']
}

function answerTo(how: string, { world, order, state, responses }: Asked): object {
  const done = (what: string): object => {
    world.shipped.push(order)
    return said(`shipped ${order}: ${what}`)
  }
  const forbidden = FORBIDDEN[how]
  if (forbidden) return inputRequired({ inputRequests: { it: forbidden as never }, requestState: 's' })
  const size = acceptedContent<{ size: string }>(responses, 'size')
  switch (how) {
    case 'endless':
      return inputRequired({ inputRequests: { size: sizeQuestion() }, requestState: String(Number(state ?? 0) + 1) })
    case 'quick':
      return done('at once')
    case 'later':
      return state === undefined ? inputRequired({ requestState: 'wait' }) : done(state)
    case 'url': {
      if (responses === undefined)
        return inputRequired({
          inputRequests: { pay: inputRequired.elicitUrl({ message: 'Pay here.', url: 'https://bank.example/pay?order=7' }) },
          requestState: 'paying',
        })
      return done(JSON.stringify(responses))
    }
    case 'both': {
      if (responses === undefined)
        return inputRequired({ inputRequests: { size: sizeQuestion(), other: sizeQuestion('And the other?') }, requestState: 'both' })
      return done(JSON.stringify(responses))
    }
    case 'twice': {
      if (state === undefined) return inputRequired({ inputRequests: { size: sizeQuestion() }, requestState: 'first' })
      if (state === 'first')
        return inputRequired({ inputRequests: { size: sizeQuestion('Really?') }, requestState: `second ${size?.size}` })
      return done(`${state}, then ${size?.size}`)
    }
    default: {
      if (responses === undefined) return inputRequired({ inputRequests: { size: sizeQuestion() }, requestState: `state of ${order}` })
      return size ? done(size.size) : said(`not shipped: ${JSON.stringify(responses)}`, true)
    }
  }
}

/** A server that is running. */
export interface AskingServer {
  url: string
  world: AskingWorld
  close(): Promise<void>
}

/** Starts the server. `generation`: `legacy` answers only the protocol before 2026-07-28, in which the SDK asks during the call. */
export async function startAsking(generation: 'modern' | 'legacy' = 'modern'): Promise<AskingServer> {
  const world: AskingWorld = { calls: [], shipped: [] }
  const handler = createMcpHandler(() => askingServer(world))
  const server = await new Promise<ServerType>((resolve) => {
    const started: ServerType = serve({ fetch: answer, hostname: '127.0.0.1', port: 0 }, () => resolve(started))
  })

  function answer(request: Request): Response | Promise<Response> {
    if (generation === 'legacy' && request.headers.get('mcp-method') === 'server/discover')
      return Response.json({ jsonrpc: '2.0', id: null, error: { code: -32_601, message: 'Method not found' } }, { status: 400 })
    return handler.fetch(request)
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    world,
    async close() {
      await handler.close()
      await new Promise((resolve) => {
        server.close(resolve)
        if ('closeAllConnections' in server) server.closeAllConnections()
      })
    },
  }
}
