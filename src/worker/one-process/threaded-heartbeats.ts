// Heartbeats of a worker in one process, sent by a thread with its own connection.
import { Worker as Thread } from 'node:worker_threads'
import type { FromSender, ToSender } from '../orchestrator/heartbeats.ts'
import { DEFAULT_STUCK_LOOP_MS } from '../check-options.ts'
import type { HeartbeatThreadData, ToThread } from './heartbeat-thread.ts'

const ALIVE_EVERY_MS = 1_000

/** A running thread. */
export interface HeartbeatThread {
  /** Changes the API key of its connection. */
  setApiKey(apiKey: string): void
  /** Connects the two halves of heartbeats: returns the function that sends messages to the thread; `post` gets its answers. */
  heartbeats(post: (message: FromSender) => void): (message: ToSender) => void
  close(): Promise<void>
}

/** Starts the thread. Rejects if it cannot connect. */
export async function startHeartbeatThread(temporal: HeartbeatThreadData['temporal']): Promise<HeartbeatThread> {
  const workerData: HeartbeatThreadData = { temporal, stuckLoopMs: DEFAULT_STUCK_LOOP_MS }
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const thread = new Thread(new URL(`./heartbeat-thread.${extension}`, import.meta.url), { workerData })
  await new Promise<void>((resolve, reject) => {
    thread.once('message', () => resolve())
    thread.once('error', reject)
  })
  thread.unref()
  const tell = (message: ToThread): void => thread.postMessage(message)
  const alive = setInterval(() => tell({ type: 'alive' }), ALIVE_EVERY_MS)
  alive.unref()
  return {
    setApiKey: (apiKey) => tell({ type: 'api_key', apiKey }),
    heartbeats(post) {
      thread.on('message', post)
      return tell
    },
    async close() {
      clearInterval(alive)
      await thread.terminate()
    },
  }
}
