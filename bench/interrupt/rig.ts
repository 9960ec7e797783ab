// Workers whose sessions the benchmark interrupts, and one interrupt, measured.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { activitiesOf } from '../turn/history.ts'
import { startWorker } from '../worker/start.ts'

const TASK_QUEUE = 'bench-interrupt'
/** Time for calls that have begun to send their first heartbeats. */
const BEGUN_MS = 200
const LOOK_EVERY_MS = 10

/** What is in progress when the interrupt comes; `riding` is a quick read that is part of its model call. */
export type HeldStep = 'model' | 'tool' | 'reads' | 'riding'

/** Milliseconds from the call of `interrupt`. */
export interface InterruptTimes {
  /** To the signal of the last call in progress. */
  signalMs: number
  /** To the moment when the client knows that the run has ended. */
  endMs: number
}

export interface InterruptBench {
  interrupt(held: HeldStep): Promise<InterruptTimes>
}

interface Report {
  sessionId: string
  what: 'begun' | 'stopped'
  at: number
}

/** Starts a stack and this many workers on it. Several workers run activities of one another's sessions. */
export async function withInterruptBench<T>(workers: number, use: (bench: InterruptBench) => Promise<T>): Promise<T> {
  const stack = await startStack()
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-'))
  const file = join(folder, 'told')
  process.env.BENCH_TOLD = file
  // A read that lasts until it is stopped would not prove to be quick.
  process.env.PAWL_QUICK_CALLS = 'always'
  const here = {
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
    taskQueue: TASK_QUEUE,
  }
  const pawl = await Pawl.connect(here)
  const connection = await Connection.connect({ address: here.temporal.address })
  const client = new Client({ connection, namespace: here.temporal.namespace })
  const module = fileURLToPath(new URL('agent.mjs', import.meta.url))
  const interceptors = fileURLToPath(new URL('no-eager.mjs', import.meta.url))
  const start = () => startWorker({ ...here, module, processes: 2, ...(workers > 1 && { interceptors }) })
  const started = await Promise.all(Array.from({ length: workers }, start))

  async function reports(sessionId: string, what: Report['what'], count: number): Promise<Report[]> {
    for (;;) {
      const lines = (await readFile(file, 'utf8').catch(() => '')).split('\n').slice(0, -1)
      const found = lines.map((line) => JSON.parse(line) as Report).filter((one) => one.sessionId === sessionId && one.what === what)
      if (found.length >= count) return found
      await sleep(LOOK_EVERY_MS)
    }
  }

  async function interruptRiding(): Promise<InterruptTimes> {
    const { sessionId, ...interrupted } = await interruptOne('riding')
    if ((await activitiesOf(client, `pawl:${sessionId}`)).includes('executeTool'))
      throw new Error('The read did not ride on the model call.')
    return interrupted
  }

  async function interrupt(held: HeldStep): Promise<InterruptTimes> {
    return held === 'riding' ? interruptRiding() : interruptOne(held)
  }

  async function interruptOne(held: HeldStep): Promise<InterruptTimes & { sessionId: string }> {
    const count = held === 'reads' ? 5 : 1
    const session = pawl.session(undefined, { agent: 'interrupt' })
    // Nothing rides on the first model call of a new session.
    if (held === 'riding') await (await session.send('hello')).result()
    const handle = await session.send(held)
    await reports(session.id, 'begun', count)
    await sleep(BEGUN_MS)
    const at = Date.now()
    await session.interrupt()
    await handle.settled()
    const endMs = Date.now() - at
    const stopped = await reports(session.id, 'stopped', count)
    return { sessionId: session.id, signalMs: Math.max(...stopped.map((one) => one.at)) - at, endMs }
  }

  try {
    return await use({ interrupt })
  } finally {
    for (const worker of started) await worker.stop()
    await pawl.close()
    await connection.close()
    await stack.stop()
    await rm(folder, { recursive: true })
  }
}
