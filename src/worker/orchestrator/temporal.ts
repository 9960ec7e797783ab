// A worker's connection to Temporal.
import { NativeConnection } from '@temporalio/worker'
import { noTemporal, resolveTemporal, type TemporalAddress } from '../../connect/temporal.ts'

/** A native connection of our own. @throws ConnectError `no_temporal`. */
export async function connectNative(temporal: TemporalAddress): Promise<NativeConnection> {
  const { namespace: _, apiKey, ...where } = resolveTemporal(temporal)
  try {
    return await NativeConnection.connect({
      ...where,
      ...(apiKey !== undefined && { apiKey: typeof apiKey === 'function' ? apiKey() : apiKey }),
    })
  } catch (cause) {
    throw noTemporal(where.address, cause)
  }
}
