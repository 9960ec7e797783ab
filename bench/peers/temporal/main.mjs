// The bare loop: two activities whose inputs are references. Heartbeats, retries and the sticky queue's timeout are set as Temporal's
// documentation advises for a fast retry after a crash.
import { existsSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { heartbeat } from '@temporalio/activity'
import { Client, Connection } from '@temporalio/client'
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { ask, fill, serve, setting } from '../program.mjs'

const HEARTBEAT_EVERY_MS = 300
/** The program runs twice: as the floor of all rows, and for its own row. */
const TASK_QUEUE = `bench-peers-temporal-${basename(setting.folder)}`

const activities = {
  async model({ conversation, turn }) {
    const input = ask(conversation, turn)
    return input && { role: 'assistant', content: [{ type: 'tool_use', id: `toolu_${turn}`, name: 'fill', input }] }
  },
  async tool(input) {
    const beat = setInterval(() => heartbeat(), HEARTBEAT_EVERY_MS)
    try {
      return await fill(input)
    } finally {
      clearInterval(beat)
    }
  },
}

Runtime.install({ logger: new DefaultLogger('ERROR') })
// A deployment builds its bundle ahead: a restarted process must not wait for it.
const codePath = join(setting.folder, 'bundle.js')
if (!existsSync(codePath)) {
  const workflowsPath = fileURLToPath(new URL('workflow.js', import.meta.url))
  const { code } = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('ERROR') })
  writeFileSync(codePath, code)
}
const native = await NativeConnection.connect({ address: setting.temporalAddress })
const worker = await Worker.create({
  connection: native,
  namespace: setting.namespace,
  taskQueue: TASK_QUEUE,
  workflowBundle: { codePath },
  activities,
  stickyQueueScheduleToStartTimeout: '1s',
})
const running = worker.run()
const connection = await Connection.connect({ address: setting.temporalAddress })
const client = new Client({ connection, namespace: setting.namespace })

await serve(
  async (conversation) => {
    const workflowId = `temporal-${conversation.id}`
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
