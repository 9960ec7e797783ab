// The worker module of the retail agent whose tools are those of MCP servers: the turns alternate between stdio and HTTP.
import { fileURLToPath } from 'node:url'
import { defineWorker, type ModelRequest } from 'pawl'
import type { ScriptedAnswer } from 'pawl/testing'
import { mcp } from 'pawl/tools'
import { answer, retailWith } from './agent.ts'
import { effectOf } from './effects.ts'
import { LOOK_UP } from './mcp-server.ts'
import { readToolSpecs } from './workload.ts'

const names = readToolSpecs().map(({ name }) => name)
const retry = { maxRetries: 5, baseDelay: 100 }

function ruleOf(name: string) {
  const effect = effectOf(name)
  if (effect === 'external') return { effect, retry, settleAfter: '500ms' as const }
  return effect === 'read' ? { effect, retry } : { effect, retry }
}

const lookUpOf = (tool: string) => ({
  tool: LOOK_UP,
  input: ({ world }: { world: string }, ctx: { idempotencyKey: string }) => ({ world, tool, key: ctx.idempotencyKey }),
  verdict({ structuredContent }: { structuredContent?: unknown }) {
    const { result } = structuredContent as { result: string | null }
    return result === null ? { happened: false as const } : { happened: true as const, result }
  },
})

const retailMcp = (name: string, transport: Parameters<typeof mcp>[0]['transport']) =>
  mcp({
    name,
    transport,
    effects: Object.fromEntries(names.map((tool) => [tool, ruleOf(tool)])),
    verify: Object.fromEntries(names.filter((tool) => effectOf(tool) === 'external').map((tool) => [tool, lookUpOf(tool)])),
    tools: { allow: names },
    timeout: '10s',
  })

const SERVERS = ['stdio', 'http']
const tools = [
  retailMcp('stdio', {
    type: 'stdio',
    command: process.execPath,
    args: [fileURLToPath(new URL('mcp-stdio.mjs', import.meta.url))],
    env: { RETAIL_URL: process.env.RETAIL_URL ?? '', PAWL_SHARED: process.env.PAWL_SHARED ?? '' },
  }),
  retailMcp('http', { type: 'http', url: process.env.RETAIL_MCP_URL ?? '' }),
]

/** The ground-truth call, of one of the servers, in the world of the task. */
function answerOverMcp(request: ModelRequest): ScriptedAnswer {
  const { messages } = request
  const [, world = ''] = /Task ([\w-]+):/.exec(JSON.stringify(messages[0]?.content)) ?? []
  const server = SERVERS[messages.length % 4 < 2 ? 0 : 1] ?? ''
  const blocks = answer(request)
  if (!Array.isArray(blocks)) return blocks
  return blocks.map((block) =>
    block.type === 'tool_use' ? { ...block, name: `${server}__${block.name}`, input: { ...(block.input as object), world } } : block,
  )
}

export default defineWorker({ agents: [retailWith({ answer: answerOverMcp, tools })] })
