// Temporal's plugin for the AI SDK: `generateText` in a workflow, whose model calls are activities of the plugin, and whose tool calls one of
// ours. Heartbeats, retries and the sticky queue's timeout are those of the bare loop.
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { heartbeat } from '@temporalio/activity'
import { AiSdkPlugin } from '@temporalio/ai-sdk'
import { Client, Connection } from '@temporalio/client'
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { ask, fill, serve, setting } from '../program.mjs'

const HEARTBEAT_EVERY_MS = 300
const TASK_QUEUE = 'bench-peers-ai-sdk'

const model = {
  specificationVersion: 'v4',
  provider: 'bench',
  modelId: 'bench',
  supportedUrls: {},
  async doGenerate({ prompt }) {
    const said = JSON.parse(prompt.find(({ role }) => role === 'user').content[0].text)
    const turn = 1 + prompt.filter(({ role }) => role === 'assistant').length
    const input = ask(said, turn)
    return {
      content: input
        ? [{ type: 'tool-call', toolCallId: `toolu_${turn}`, toolName: 'fill', input: JSON.stringify(input) }]
        : [{ type: 'text', text: 'done' }],
      finishReason: { unified: input ? 'tool-calls' : 'stop', raw: undefined },
      usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
      warnings: [],
    }
  },
}
const modelProvider = {
  specificationVersion: 'v4',
  languageModel: () => model,
  embeddingModel: () => undefined,
  imageModel: () => undefined,
}

const activities = {
  async fill(input) {
    const beat = setInterval(() => heartbeat(), HEARTBEAT_EVERY_MS)
    try {
      return await fill(input)
    } finally {
      clearInterval(beat)
    }
  },
}

Runtime.install({ logger: new DefaultLogger('ERROR') })
const plugins = [new AiSdkPlugin({ modelProvider })]
// A deployment builds its bundle ahead: a restarted process must not wait for it.
const codePath = join(setting.folder, 'bundle.js')
if (!existsSync(codePath)) {
  const workflowsPath = fileURLToPath(new URL('workflow.js', import.meta.url))
  const { code } = await bundleWorkflowCode({ workflowsPath, plugins, logger: new DefaultLogger('ERROR') })
  writeFileSync(codePath, code)
}
const native = await NativeConnection.connect({ address: setting.temporalAddress })
const worker = await Worker.create({
  connection: native,
  namespace: setting.namespace,
  taskQueue: TASK_QUEUE,
  workflowBundle: { codePath },
  activities,
  plugins,
  stickyQueueScheduleToStartTimeout: '1s',
})
const running = worker.run()
const connection = await Connection.connect({ address: setting.temporalAddress })
const client = new Client({ connection, namespace: setting.namespace })

await serve(
  async (conversation) => {
    const workflowId = `ai-sdk-${conversation.id}`
    await client.workflow.execute('conversation', { workflowId, taskQueue: TASK_QUEUE, args: [conversation] })
    return { workflowId }
  },
  async () => {
    worker.shutdown()
    await running
    await native.close()
    await connection.close()
  },
)
