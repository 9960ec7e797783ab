// A worker in one process, loaded on demand: it imports the Temporal SDK, which the parent of executors does not need.
import type { Agent } from '../../agent/agent.ts'
import type { ServicesOf } from '../../agent/tool.ts'
import { checkCreate } from '../check-options.ts'
import type { ServedAgents } from '../definition.ts'
import type { CreateWorkerOptions, PawlWorker } from '../options.ts'

/**
 * Creates a worker that serves `agents` in this process. pawl detects a crash of the process within seconds, by missing heartbeats;
 * `superviseWorkers` detects it at once.
 * @throws InvalidOptionError `invalid_option`; ConnectError `not_configured`, `no_temporal`; StoreError `invalid_postgres_url`,
 * `invalid_store_options`, `foreign_namespace`; WorkerError `no_postgres`, `services_failed`, `no_telemetry_packages`; DeclarationError
 * `no_agents`, `duplicate_agent`.
 */
export async function createWorker<const A extends readonly Agent[]>(
  options: CreateWorkerOptions<ServicesOf<A[number]>> & ServedAgents<A>,
): Promise<PawlWorker> {
  return create(options)
}

/**
 * Creates a worker and runs it until it is shut down (by SIGINT or SIGTERM).
 * @throws InvalidOptionError `invalid_option`, and the other errors of `createWorker`.
 */
export async function runWorker<const A extends readonly Agent[]>(
  options: CreateWorkerOptions<ServicesOf<A[number]>> & ServedAgents<A>,
): Promise<void> {
  const worker = await create(options)
  await worker.run()
}

async function create(options: CreateWorkerOptions): Promise<PawlWorker> {
  const times = checkCreate(options)
  const worker = await import('./create-worker.ts')
  return worker.createWorker({ ...options, ...times })
}
