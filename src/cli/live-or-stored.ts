// Queries a session, or only the side store if Temporal does not answer.
import type { Pawl } from '../client/index.ts'
import type { StoreQueries } from '../client/queries/queries.ts'
import { PawlError } from '../session/errors.ts'
import { queryStore } from './queries.ts'
import { type DeploymentOptions, onDeployment } from './connecting.ts'

/** Whether the error means that Temporal does not answer or is not configured. */
export function isWithoutTemporal(error: unknown): boolean {
  return error instanceof PawlError && (error.code === 'no_temporal' || error.code === 'not_configured')
}

/** Refusals of the side store that are true whether or not Temporal answers. */
const SAID_BY_STORE: ReadonlySet<string> = new Set(['session_not_found', 'run_not_found', 'events_gone'])

/** @throws Temporal's failure, if the store does not answer either. */
export async function liveOrStored<T>(
  options: DeploymentOptions,
  live: (pawl: Pawl) => Promise<T>,
  stored: (queries: StoreQueries) => Promise<T>,
): Promise<T> {
  try {
    return await onDeployment(options, live)
  } catch (noTemporal) {
    if (!isWithoutTemporal(noTemporal)) throw noTemporal
    return await queryStore(options, stored).catch((error: unknown) => {
      throw error instanceof PawlError && SAID_BY_STORE.has(error.code) ? error : noTemporal
    })
  }
}
