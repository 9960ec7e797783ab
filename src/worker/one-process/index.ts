// A worker in one process, loaded when it is asked for: it brings the Temporal SDK along, which a parent of executors does without.
import type { CreateWorkerOptions, PawlWorker } from '../options.ts'

/**
 * Creates a worker that serves `agents` in this process. A crash of the process is noticed by heartbeats within seconds;
 * `superviseWorkers` notices it at once.
 * @throws WorkerError `no_temporal`, `no_postgres`; DeclarationError `no_agents`, `duplicate_agent`.
 */
export async function createWorker(options: CreateWorkerOptions): Promise<PawlWorker> {
  const worker = await import('./create-worker.ts')
  return worker.createWorker(options)
}

/** Creates a worker and serves until it is shut down (SIGINT and SIGTERM do so). */
export async function runWorker(options: CreateWorkerOptions): Promise<void> {
  const worker = await createWorker(options)
  await worker.run()
}
