// The thread that sends the heartbeats of a process's workers: its event loop runs while a tool blocks the main one. All workers share
// it, because each thread loads its own copy of the SDK, which would be most of the start-up cost of another worker.
import { type MessagePort, parentPort } from 'node:worker_threads'
import { connectClient, type TemporalAddress } from '../../connect/temporal.ts'
import { crossing } from '../errors.ts'
import { type FromSender, heartbeatSender, sendBy, type ToSender } from '../orchestrator/heartbeats/heartbeats.ts'
import { steadyNow } from '../steady-clock.ts'

/** A worker's request to the thread. */
export interface HeartbeatRequest {
  temporal: TemporalAddress & { apiKey?: string }
  /** How long the main event loop may be blocked before the thread stops its heartbeats. */
  stuckLoopMs: number
  /** The worker's line to the thread; when it closes, the worker's heartbeats end. */
  port: MessagePort
}

/** Messages from a worker. */
export type ToThread = ToSender | { type: 'api_key'; apiKey: string }

/** Messages to a worker. The first one is `ready` or `failed`. */
export type FromThread = FromSender | { type: 'ready' } | { type: 'failed'; error: ReturnType<typeof crossing> }

async function serve({ temporal, stuckLoopMs, port }: HeartbeatRequest): Promise<void> {
  const post = (message: FromThread): void => port.postMessage(message)
  let { apiKey } = temporal
  const { client, close } = await connectClient({ ...temporal, ...(apiKey !== undefined && { apiKey: () => apiKey ?? '' }) })
  let aliveAt = steadyNow()
  const sending = new Set<number>()
  const receive = heartbeatSender((token, details) => {
    if (steadyNow() - aliveAt > stuckLoopMs) return Promise.reject(new Error('the main event loop is stuck'))
    return sendBy(client)(token, details)
  }, post)
  port.on('message', (message: ToThread) => {
    if (message.type === 'alive') aliveAt = steadyNow()
    else if (message.type === 'api_key') apiKey = message.apiKey
    else {
      if (message.type === 'start') sending.add(message.id)
      if (message.type === 'end') sending.delete(message.id)
      receive(message)
    }
  })
  port.on('close', () => {
    for (const id of sending) receive({ type: 'end', id })
    void close()
  })
  post({ type: 'ready' })
}

parentPort?.on('message', (wanted: HeartbeatRequest) => {
  serve(wanted).catch((error: unknown) => wanted.port.postMessage({ type: 'failed', error: crossing(error) } satisfies FromThread))
})
