// A worker in its own processes, like `pawl worker`: starts on request and reports the events of its processes.
// Plain JavaScript, so that no loader counts towards pawl's memory or time.
import { once } from 'node:events'
import { superviseWorkers } from 'pawl/worker'

const tell = (event) => process.connected && process.send({ ...event, at: Date.now() })

const [options] = await once(process, 'message')
const supervisor = await superviseWorkers({ ...options, onEvent: tell })
process.once('disconnect', () => void supervisor.shutdown())
await supervisor.ready()
tell({ event: 'serving' })
