// Worker processes of either side, started and stopped.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { superviseWorkers } from 'pawl/worker'
import { TASK_QUEUE } from './work.ts'

/** Messages to a worker process. */
export interface WorkerSetting {
  address: string
  namespace: string
  databaseUrl: string
  eager: 'on' | 'off'
  /** Path of the floor's workflow bundle. */
  floorBundle: string
}

/** Ends worker processes, and resolves when they have exited. */
export type Stop = () => Promise<void>

/** Starts `processes` processes of one side, and resolves when all of them serve. */
export async function startWorkers(side: 'floor' | 'pawl', processes: number, setting: WorkerSetting): Promise<Stop> {
  const path = fileURLToPath(new URL(`./${side}-worker.ts`, import.meta.url))
  const children = Array.from({ length: processes }, () => fork(path))
  const stop = async () => void (await Promise.all(children.map(ended)))
  try {
    await Promise.all(children.map((child) => ready(child, setting)))
  } catch (error) {
    await stop()
    throw error
  }
  return stop
}

/** Starts `processes` processes of pawl under a supervisor in this process. */
export async function startSupervised(processes: number, { address, namespace, databaseUrl }: WorkerSetting): Promise<Stop> {
  const supervisor = await superviseWorkers({
    module: fileURLToPath(new URL('./agent.ts', import.meta.url)),
    processes,
    temporal: { address, namespace },
    taskQueue: TASK_QUEUE.pawl,
    postgres: databaseUrl,
  })
  await supervisor.ready()
  return () => supervisor.shutdown()
}

async function ready(child: ChildProcess, setting: WorkerSetting): Promise<void> {
  child.send(setting)
  const [said] = await Promise.race([once(child, 'message'), once(child, 'exit')])
  if (said !== 'ready') throw new Error(`A worker process ended before it served (exit code ${said}): see its error above.`)
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  if (child.connected) child.disconnect()
  await exit
}
