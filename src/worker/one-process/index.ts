// A worker in one process, loaded when it is asked for: it brings the Temporal SDK along, which a parent of executors does without.
import { checkCreate } from '../check-options.ts'
import type { CreateWorkerOptions, PawlWorker } from '../options.ts'

/**
 * Creates a worker that serves `agents` in this process. A crash of the process is noticed by heartbeats within seconds;
 * `superviseWorkers` notices it at once.
 * @throws InvalidOption `invalid_option`; ConnectError `no_temporal`; StoreError `invalid_postgres_url`; WorkerError `no_postgres`, `services_failed`;
 * DeclarationError `no_agents`, `duplicate_agent`.
 */
export async function createWorker(options: CreateWorkerOptions): Promise<PawlWorker> {
  checkCreate(options)
  const worker = await import('./create-worker.ts')
  return worker.createWorker(options)
}

/**
 * Creates a worker and serves until it is shut down (SIGINT and SIGTERM do so).
 * @throws InvalidOption `invalid_option`, and the rest that `createWorker` throws.
 */
export async function runWorker(options: CreateWorkerOptions): Promise<void> {
  const worker = await createWorker(options)
  await worker.run()
}
