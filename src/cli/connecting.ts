// How a command finds the deployment that it is about: by its options, the environment, or a `pawl dev` that runs.
import type { Command } from 'commander'
import type { ConnectOptions } from '../client/types.ts'
import type { Pawl } from '../client/pawl.ts'
import { dataOption } from './options.ts'
import { findRunning } from './running.ts'

/** Which deployment. */
export interface DeploymentOptions {
  data: string
  taskQueue?: string
  schema?: string
}

/** Adds the options that say which deployment a command is about. */
export function aboutDeployment(command: Command): Command {
  return command
    .addOption(dataOption())
    .option('--task-queue <name>', "Temporal task queue (default: that of the running `pawl dev`, else 'pawl')")
    .option('--schema <name>', "Postgres schema (default: 'pawl')")
}

/** Where the stack is: what the environment says, else what a `pawl dev` with this data folder noted. */
export async function connectOptions(options: DeploymentOptions): Promise<ConnectOptions> {
  const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE, DATABASE_URL } = process.env
  const found = await findRunning(options.data)
  const running = (TEMPORAL_ADDRESS || TEMPORAL_PROFILE) && TEMPORAL_ADDRESS !== found?.temporalAddress ? null : found
  const taskQueue = options.taskQueue ?? running?.taskQueue
  return {
    ...(running && { temporal: { address: running.temporalAddress, namespace: TEMPORAL_NAMESPACE || running.namespace } }),
    ...(running?.databaseUrl && !DATABASE_URL && { postgres: running.databaseUrl }),
    ...(taskQueue !== undefined && { taskQueue }),
    ...(options.schema !== undefined && { schema: options.schema }),
  }
}

/** Connects, works and closes. The client is loaded when it is needed: `pawl --help` need not wait for it. */
export async function onDeployment<T>(options: DeploymentOptions, work: (pawl: Pawl) => Promise<T>): Promise<T> {
  const { Pawl } = await import('../client/index.ts')
  const pawl = await Pawl.connect(await connectOptions(options))
  try {
    return await work(pawl)
  } finally {
    await pawl.close()
  }
}
