// Where Temporal is, and a client for it: from what the caller says, else from `TEMPORAL_*` and the profile file.
import { Client, Connection, type ConnectionOptions } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import { loadClientConnectConfig } from '@temporalio/envconfig'
import { interceptors } from './closed-channel.ts'
import { ConnectError } from './errors.ts'

/** Where Temporal is, as plain data; what is left out comes from `TEMPORAL_*` and the profile file. */
export interface TemporalAddress {
  address?: string
  namespace?: string
  /** A function is asked at each connection, and about once a minute, so that keys can be rotated. */
  apiKey?: string | (() => string)
  tls?: NonNullable<ConnectionOptions['tls']>
}

/** An address with nothing left open. */
export interface ResolvedTemporal extends TemporalAddress {
  address: string
  namespace: string
  metadata?: Record<string, string>
}

const CONNECT_TIMEOUT_MS = 10_000

/** Where Temporal is, all sources considered; default `127.0.0.1:7233`, namespace `default`. */
export function resolveTemporal(temporal: TemporalAddress = {}): ResolvedTemporal {
  const { connectionOptions, namespace } = loadClientConnectConfig()
  const { address, tls, apiKey, metadata } = connectionOptions as Partial<ResolvedTemporal>
  return {
    ...(tls !== undefined && { tls }),
    ...(apiKey !== undefined && { apiKey }),
    ...(metadata !== undefined && { metadata }),
    ...temporal,
    address: temporal.address ?? address ?? '127.0.0.1:7233',
    namespace: temporal.namespace ?? namespace ?? 'default',
  }
}

/** A client of our own. @throws ConnectError `no_temporal`. */
export async function connectClient(
  temporal: TemporalAddress,
  dataConverter?: DataConverter,
): Promise<{ client: Client; close(): Promise<void> }> {
  const { namespace, ...where } = resolveTemporal(temporal)
  try {
    const connection = await Connection.connect({ ...where, connectTimeout: CONNECT_TIMEOUT_MS, interceptors: interceptors() })
    return { client: new Client({ connection, namespace, ...(dataConverter && { dataConverter }) }), close: () => connection.close() }
  } catch (cause) {
    throw noTemporal(where.address, cause)
  }
}

/** The error for a server that does not answer. */
export function noTemporal(address: string, cause: unknown): ConnectError {
  return new ConnectError(
    'no_temporal',
    `No Temporal server answers at ${address}: set TEMPORAL_ADDRESS to one that does, or start one with \`pawl dev\` or \`temporal server start-dev\`.`,
    { cause },
  )
}
