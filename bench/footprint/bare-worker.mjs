// The floor: a process with a bare worker of the Temporal SDK, without pawl.
import { once } from 'node:events'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'

Runtime.install({ logger: new DefaultLogger('ERROR') })
const [{ address, namespace, bundle }] = await once(process, 'message')
const connection = await NativeConnection.connect({ address })
const worker = await Worker.create({
  connection,
  namespace,
  taskQueue: 'bench-bare',
  workflowBundle: { codePath: bundle },
  activities: { model: async () => null },
})
process.once('disconnect', () => worker.shutdown())
process.send('ready')
await worker.run()
await connection.close()
