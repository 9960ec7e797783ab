// Queries a session, or the side store alone if Temporal does not answer.
import type { Pawl } from '../client/index.ts'
import type { StoreQueries } from '../client/queries/queries.ts'
import { PawlError } from '../session/errors.ts'
import { queryStore } from './queries.ts'
import { type DeploymentOptions, onDeployment } from './connecting.ts'

/** @throws Temporal's failure, if the store does not answer either. */
export async function liveOrStored<T>(
  options: DeploymentOptions,
  live: (pawl: Pawl) => Promise<T>,
  stored: (queries: StoreQueries) => Promise<T>,
): Promise<T> {
  try {
    return await onDeployment(options, live)
  } catch (noTemporal) {
    if (!(noTemporal instanceof PawlError && noTemporal.code === 'no_temporal')) throw noTemporal
    return await queryStore(options, stored).catch((error: unknown) => {
      const isKnown = error instanceof PawlError && (error.code === 'session_not_found' || error.code === 'run_not_found')
      throw isKnown ? error : noTemporal
    })
  }
}
