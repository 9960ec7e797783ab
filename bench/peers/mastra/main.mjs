// A durable agent with Postgres storage and automatic recovery, which writes a snapshot of the run after each step.
import { Mastra } from '@mastra/core'
import { Agent } from '@mastra/core/agent'
import { createDurableAgent } from '@mastra/core/agent/durable'
import { createTool } from '@mastra/core/tools'
import { PostgresStore } from '@mastra/pg'
import { z } from 'zod'
import { ask, fill, serve, setting } from '../program.mjs'

const model = {
  specificationVersion: 'v2',
  provider: 'bench',
  modelId: 'bench',
  supportedUrls: {},
  async doGenerate() {
    throw new Error('The durable agent streams.')
  },
  async doStream({ prompt }) {
    const said = JSON.parse(prompt.find(({ role }) => role === 'user').content[0].text)
    const turn = 1 + prompt.filter(({ role }) => role === 'assistant').length
    const input = ask(said, turn)
    const parts = [
      { type: 'stream-start', warnings: [] },
      { type: 'response-metadata', id: `msg_${turn}`, modelId: 'bench', timestamp: new Date(0) },
      ...(input
        ? [{ type: 'tool-call', toolCallId: `toolu_${turn}`, toolName: 'fill', input: JSON.stringify(input) }]
        : [
            { type: 'text-start', id: '1' },
            { type: 'text-delta', id: '1', delta: 'done' },
            { type: 'text-end', id: '1' },
          ]),
      { type: 'finish', finishReason: input ? 'tool-calls' : 'stop', usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } },
    ]
    return { stream: ReadableStream.from(parts) }
  },
}

const fillTool = createTool({
  id: 'fill',
  description: 'Answers with filler text.',
  inputSchema: z.object({ id: z.string(), turn: z.number(), hold: z.boolean() }),
  execute: async (input) => ({ text: await fill(input) }),
})

const agent = createDurableAgent({
  agent: new Agent({ id: 'bench', name: 'bench', instructions: 'Answer.', model, tools: { fill: fillTool } }),
  maxSteps: 100_000,
})
const storage = new PostgresStore({ id: 'bench', connectionString: setting.databaseUrl })
const mastra = new Mastra({ agents: { bench: agent }, storage, recovery: { durableAgents: 'auto' }, logger: false })
await storage.init()

// What the generated server does when it starts.
if (setting.resume) void mastra.recoverAllDurableAgents()

await serve(
  async (said) => {
    const { output, cleanup } = await agent.stream(JSON.stringify(said), { runId: said.id, maxSteps: said.turns + 2 })
    await output.consumeStream()
    cleanup()
  },
  () => storage.close(),
)
