// A backend in plain JavaScript: its own worker, one question, one answer. Prints the outcome as a line of JSON. WORKER: where the agent runs.
import { Pawl } from 'pawl/client'
import { createWorker, superviseWorkers } from 'pawl/worker'
import { adder } from './adder.mjs'

const taskQueue = process.env.TASK_QUEUE
const end = process.env.WORKER === 'supervised' ? await supervised() : await inProcess()
const pawl = await Pawl.connect({ taskQueue })
const run = await pawl.session(undefined, { agent: 'adder' }).send('What are two and three?')
const { text } = await run.result({ timeout: 60_000 })
await pawl.close()
await end()
const [, node] = /\(Node ([\d.]+)\)/.exec(text)
console.log(JSON.stringify({ node, text }))

async function inProcess() {
  const worker = await createWorker({ agents: [adder], taskQueue })
  const running = worker.run()
  return async () => {
    await worker.shutdown()
    await running
  }
}

async function supervised() {
  const supervisor = await superviseWorkers({ module: './adder.mjs', processes: 1, taskQueue })
  await supervisor.ready()
  return () => supervisor.shutdown()
}
