// Beats of an unsupervised worker: by a thread with a connection of its own, or, where the connection is the user's, in this loop.
import { Worker as Thread } from 'node:worker_threads'
import type { Client } from '@temporalio/client'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { BeatThreadData } from './beat-thread.ts'
import { openBeatDesk } from './beat-desk.ts'
import { remoteBeats, type RemoteBeats } from './beats.ts'
import type { FromWorker, ToWorker } from './messages.ts'

const ALIVE_EVERY_MS = 1_000
const STUCK_LOOP_MS = 60_000

/** Beats, and how to end them. */
export interface LocalBeats {
  beats: RemoteBeats
  close(): Promise<void>
}

/** Starts the thread. Rejects if it cannot connect. */
export async function startThreadBeats(temporal: TemporalAddress): Promise<LocalBeats> {
  const workerData: BeatThreadData = { temporal, stuckLoopMs: STUCK_LOOP_MS }
  const thread = new Thread(new URL(`./beat-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url), { workerData })
  const post = (message: FromWorker): void => thread.postMessage(message)
  const beats = remoteBeats(post, { killsOverdue: false })
  await new Promise<void>((resolve, reject) => {
    thread.once('message', () => resolve())
    thread.once('error', reject)
  })
  thread.on('message', (message: ToWorker) => beats.receive(message))
  thread.unref()
  const alive = setInterval(() => post({ type: 'alive' }), ALIVE_EVERY_MS)
  alive.unref()
  return {
    beats,
    async close() {
      clearInterval(alive)
      await thread.terminate()
    },
  }
}

/** Beats in this event loop: a tool that blocks it for longer than the heartbeat timeout is taken for dead. */
export function inLoopBeats(client: Client): LocalBeats {
  const beats: RemoteBeats = remoteBeats((message) => void desk.receive(message), { killsOverdue: false })
  const desk = openBeatDesk(client, (message) => beats.receive(message))
  return {
    beats,
    close: async () => desk.beater.stop(),
  }
}
