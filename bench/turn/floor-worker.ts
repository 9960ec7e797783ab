// A worker process of the floor.
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { askFor, fill, TASK_QUEUE } from './work.ts'
import type { WorkerSetting } from './workers.ts'

interface Reference {
  sessionId: string
  turn: number
}

const activities = {
  model: async ({ turn }: Reference) => ({
    role: 'assistant',
    content: askFor(turn),
    stopReason: 'tool_use',
    usage: { input: 10, output: 10 },
  }),
  tool: (_call: Reference & { name: string }) => fill(),
}
export type FloorActivities = typeof activities

// The measured code must not print.
Runtime.install({ logger: new DefaultLogger('WARN') })
process.once('message', (setting: WorkerSetting) => void serve(setting))

async function serve({ address, namespace, floorBundle }: WorkerSetting): Promise<void> {
  const connection = await NativeConnection.connect({ address })
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue: TASK_QUEUE.floor,
    workflowBundle: { codePath: floorBundle },
    activities,
  })
  process.once('disconnect', () => worker.shutdown())
  process.send?.('ready')
  await worker.run()
  await connection.close()
}
