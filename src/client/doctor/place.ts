// Locates the deployment to examine: by the options, the environment, or a running `pawl dev`.
import { findDevDeployment } from '../../connect/dev-stack.ts'
import type { TemporalAddress } from '../../connect/temporal.ts'
import { DEFAULT_TASK_QUEUE } from '../../session/protocol/protocol.ts'
import type { ConnectOptions } from '../connect-options.ts'
import { namesTemporal } from '../connecting.ts'

/** A deployment to examine. */
export interface DeploymentPlace {
  options: ConnectOptions
  /** The address of a running `pawl dev`. */
  found: TemporalAddress | undefined
  taskQueue: string
  /** `false` if the deployment has no side store; undefined if none is configured. */
  postgres: ConnectOptions['postgres']
}

/** Locates it without connecting to it. */
export async function findDeployment(options: ConnectOptions): Promise<DeploymentPlace> {
  const found = namesTemporal(options) ? {} : await findDevDeployment()
  const { taskQueue = found.taskQueue ?? DEFAULT_TASK_QUEUE, postgres = process.env.DATABASE_URL ?? found.postgres } = options
  return { options, found: found.temporal, taskQueue, postgres }
}
