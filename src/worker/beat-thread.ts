// The thread that beats for an unsupervised worker: its event loop turns while a tool blocks the main one.
import { parentPort, workerData } from 'node:worker_threads'
import { connectClient, type TemporalAddress } from '../connect/temporal.ts'
import { openBeatDesk } from './beat-desk.ts'
import type { FromWorker } from './messages.ts'

/** What the thread is started with. */
export interface BeatThreadData {
  temporal: TemporalAddress
  /** How long the main event loop may stand still before its attempts are given up. */
  stuckLoopMs: number
}

async function main(port: NonNullable<typeof parentPort>, { temporal, stuckLoopMs }: BeatThreadData): Promise<void> {
  const { client } = await connectClient(temporal)
  let aliveAt = Date.now()
  const desk = openBeatDesk(client, (message) => port.postMessage(message))
  port.on('message', (message: FromWorker) => {
    if (message.type === 'alive') aliveAt = Date.now()
    else desk.receive(message)
  })
  setInterval(() => {
    if (Date.now() - aliveAt > stuckLoopMs) desk.beater.stop()
  }, 1_000)
  port.postMessage({ type: 'ready' })
}

if (parentPort) await main(parentPort, workerData as BeatThreadData)
