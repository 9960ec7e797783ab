// Heartbeats of a worker in one process, sent by a thread with its own connection.
import { MessageChannel, SHARE_ENV, Worker as Thread } from 'node:worker_threads'
import type { FromSender, ToSender } from '../orchestrator/heartbeats/heartbeats.ts'
import { crossed } from '../crossed.ts'
import { EXTENSION } from '../extension.ts'
import { DEFAULT_STUCK_LOOP_MS } from '../check-options.ts'
import type { FromThread, HeartbeatRequest, ToThread } from './heartbeat-thread.ts'

const ALIVE_EVERY_MS = 1_000

export interface HeartbeatLine {
  /** Changes the API key of the thread's connection. */
  setApiKey(apiKey: string): void
  /** Connects the two halves of heartbeats. Returns the function that sends messages to the thread, and calls `post` with its answers. */
  heartbeats(post: (message: FromSender) => void): (message: ToSender) => void
  close(): void
}

/** Started for the first worker, and reused for later ones. It does not keep the process alive. */
let thread: Thread | undefined

function sharedThread(): Thread {
  if (thread) return thread
  // The thread outlives the worker that started it, so it must not keep that worker's environment variables.
  const started = new Thread(new URL(`./heartbeat-thread.${EXTENSION}`, import.meta.url), { env: SHARE_ENV })
  started.unref()
  // The lines of the thread's workers close, and the next worker starts another thread.
  started.on('error', () => undefined)
  started.once('exit', () => {
    if (thread === started) thread = undefined
  })
  thread = started
  return started
}

/** Opens a line. Rejects if the thread cannot connect. */
export async function openHeartbeatLine(temporal: HeartbeatRequest['temporal']): Promise<HeartbeatLine> {
  const { port1: line, port2: port } = new MessageChannel()
  const wanted: HeartbeatRequest = { temporal, stuckLoopMs: DEFAULT_STUCK_LOOP_MS, port }
  sharedThread().postMessage(wanted, [port])
  await new Promise<void>((resolve, reject) => {
    line.once('close', () => reject(new Error('the thread that sends heartbeats has ended')))
    line.once('message', (message: FromThread) => {
      if (message.type === 'failed') reject(crossed(message.error))
      else resolve()
    })
  }).catch((error: unknown) => {
    line.close()
    throw error
  })
  line.unref()
  const tell = (message: ToThread): void => line.postMessage(message)
  const alive = setInterval(() => tell({ type: 'alive' }), ALIVE_EVERY_MS)
  alive.unref()
  return {
    setApiKey: (apiKey) => tell({ type: 'api_key', apiKey }),
    heartbeats(post) {
      line.on('message', post)
      // Adding a listener would keep the process alive again.
      line.unref()
      return tell
    },
    close() {
      clearInterval(alive)
      line.close()
    },
  }
}
