// A worker process of pawl, unsupervised: `createWorker`, as in a process of the user's own.
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { createWorker } from 'pawl/worker'
import { agent } from './agent.ts'
import { NO_EAGER, TASK_QUEUE } from './work.ts'
import type { WorkerSetting } from './workers.ts'

// The measured code must not print.
Runtime.install({ logger: new DefaultLogger('WARN') })
process.once('message', (setting: WorkerSetting) => void serve(setting))

async function serve({ address, namespace, databaseUrl, eager }: WorkerSetting): Promise<void> {
  const worker = await createWorker({
    agents: [agent],
    temporal: { address, namespace },
    taskQueue: TASK_QUEUE.pawl,
    postgres: databaseUrl,
    ...(eager === 'off' && { interceptors: { workflowModules: [NO_EAGER] } }),
  })
  process.once('disconnect', () => void worker.shutdown())
  process.send?.('ready')
  await worker.run()
}
