// The worker module: one and the same conversation with the tool in process, and with the tool of an MCP server.
import { fileURLToPath } from 'node:url'
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { lastResult, scripted } from 'pawl/testing'
import { mcp } from 'pawl/tools'
import { z } from 'zod'

const { BENCH_RESULT_BYTES: bytes = '1000', BENCH_MCP_URL: url = 'http://127.0.0.1:1' } = process.env

const look = defineTool({
  name: 'look',
  description: 'Answers with filling.',
  input: z.object({ turn: z.number() }),
  effect: 'read',
  execute: async () => 'x'.repeat(Number(bytes)),
})
const server = (transport) => [mcp({ name: 'bench', transport, effects: { '*': 'read' } })]
const stdio = { type: 'stdio', command: process.execPath, args: [fileURLToPath(new URL('stdio.mjs', import.meta.url)), bytes] }

/** The first message says how many turns the run has. */
const modelOf = (tool) =>
  scripted(({ messages, turn }) => {
    const result = lastResult(messages)
    if (result?.isError) return result.text
    return turn > Number(messages[0].content) ? 'done' : [{ type: 'tool_use', id: `toolu_${turn}`, name: tool, input: { turn } }]
  })
/** Servers to which every user has a connection of their own. */
const SERVERS = ['one', 'two', 'three', 'four']
const ofUser = (name) =>
  mcp({
    name,
    transport: { type: 'http', url: `${url}/${name}` },
    effects: { '*': 'read' },
    auth: ({ context }) => `token-of-${context.user}`,
  })
const asksAll = scripted(({ messages, turn }) => {
  const result = lastResult(messages)
  if (result?.isError) return result.text
  return turn > 1 ? 'done' : SERVERS.map((name) => ({ type: 'tool_use', id: `toolu_${name}`, name: `${name}__look`, input: { turn } }))
})
const agent = (name, tools, tool) => defineAgent({ name, model: modelOf(tool), instructions: '', tools, limits: { maxTurns: 100_000 } })

export default defineWorker({
  agents: [
    agent('process', [look], 'look'),
    agent('stdio', server(stdio), 'bench__look'),
    agent('http', server({ type: 'http', url: `${url}/mcp` }), 'bench__look'),
    agent('many', server({ type: 'http', url: `${url}/many` }), 'bench__look'),
    defineAgent({ name: 'users', context: z.object({ user: z.number() }), model: asksAll, instructions: '', tools: SERVERS.map(ofUser) }),
  ],
})
