// A workflow on a queue that is polled every 50 ms, and a step for each model and tool call.
import { DBOS } from '@dbos-inc/dbos-sdk'
import { ask, fill, serve, setting } from '../program.mjs'

// What a process recovers are the workflows of its own executor id and application version.
DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: setting.databaseUrl,
  executorID: 'bench',
  applicationVersion: 'bench',
  logLevel: 'error',
})

const conversation = DBOS.registerWorkflow(
  async (said) => {
    const messages = [{ role: 'user', content: JSON.stringify(said) }]
    for (let turn = 1; ; turn += 1) {
      const message = await DBOS.runStep(async () => answer(messages, turn), { name: 'model' })
      if (!message) return
      const call = message.content[0]
      const content = await DBOS.runStep(() => fill(call.input), { name: 'tool' })
      messages.push(message, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] })
    }
  },
  { name: 'conversation' },
)

function answer(messages, turn) {
  const input = ask(JSON.parse(messages[0].content), turn)
  return input && { role: 'assistant', content: [{ type: 'tool_use', id: `toolu_${turn}`, name: 'fill', input }] }
}

await DBOS.launch()
await DBOS.registerQueue('conversations', { minPollingIntervalMs: 50 })

await serve(
  async (said) => {
    const handle = await DBOS.startWorkflow(conversation, { workflowID: said.id, queueName: 'conversations' })(said)
    await handle.getResult({ pollingIntervalMs: 50 })
  },
  () => DBOS.shutdown(),
)
