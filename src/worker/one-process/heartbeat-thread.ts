// The thread that sends heartbeats for a worker in one process: its event loop runs while a tool blocks the main one.
import { parentPort, workerData } from 'node:worker_threads'
import { connectClient, type TemporalAddress } from '../../connect/temporal.ts'
import { heartbeatSender, sendBy, type ToSender } from '../orchestrator/heartbeats.ts'

/** The start data of the thread. */
export interface HeartbeatThreadData {
  temporal: TemporalAddress & { apiKey?: string }
  /** How long the main event loop may be blocked before its attempts are given up. */
  stuckLoopMs: number
}

/** Messages to the thread. */
export type ToThread = ToSender | { type: 'api_key'; apiKey: string }

async function main(port: NonNullable<typeof parentPort>, { temporal, stuckLoopMs }: HeartbeatThreadData): Promise<void> {
  let { apiKey } = temporal
  const { client } = await connectClient({ ...temporal, ...(apiKey !== undefined && { apiKey: () => apiKey ?? '' }) })
  let aliveAt = Date.now()
  const receive = heartbeatSender(
    (token, details) => {
      if (Date.now() - aliveAt > stuckLoopMs) return Promise.reject(new Error('the main event loop is stuck'))
      return sendBy(client)(token, details)
    },
    (message) => port.postMessage(message),
  )
  port.on('message', (message: ToThread) => {
    if (message.type === 'alive') aliveAt = Date.now()
    else if (message.type === 'api_key') apiKey = message.apiKey
    else receive(message)
  })
  port.postMessage('ready')
}

if (parentPort) await main(parentPort, workerData as HeartbeatThreadData)
