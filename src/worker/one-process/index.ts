// A worker in one process, loaded on demand: it imports the Temporal SDK, which the parent of executors does not need.
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

/** Creates a worker and runs it until it is shut down (by SIGINT or SIGTERM). */
export async function runWorker(options: CreateWorkerOptions): Promise<void> {
  const worker = await createWorker(options)
  await worker.run()
}
