// A worker's connection to Temporal.
import { NativeConnection } from '@temporalio/worker'
import { noTemporal, configuredTemporal, whyNoTemporal, type TemporalAddress } from '../../../connect/temporal.ts'

/** Opens a native connection that pawl owns. @throws ConnectError `no_temporal`. */
export async function connectNative(temporal: TemporalAddress): Promise<NativeConnection> {
  const { namespace: _, ...where } = configuredTemporal(temporal)
  const { apiKey, ...rest } = where
  try {
    return await NativeConnection.connect({
      ...rest,
      ...(apiKey !== undefined && { apiKey: typeof apiKey === 'function' ? apiKey() : apiKey }),
    })
  } catch (cause) {
    throw await (where.tls ? whyNoTemporal(where, cause) : noTemporal(where.address, cause))
  }
}
