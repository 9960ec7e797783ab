// Where Temporal is, and a client for it: from what the caller says, else from `TEMPORAL_*` and the profile file.
import { Client, Connection, type ConnectionOptions } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import { loadClientConnectConfig } from '@temporalio/envconfig'
import type { Logger } from '../agent/tool.ts'
import { interceptors } from './closed-channel.ts'
import { absoluteConverter } from './data-converter.ts'
import { boundCalls } from './deadline.ts'
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
/** Where a Temporal server is unless somebody put it elsewhere. */
const USUAL_ADDRESS = '127.0.0.1:7233'

/** Where Temporal is, all sources considered; default `127.0.0.1:7233`, namespace `default`. */
export function resolveTemporal(temporal: TemporalAddress = {}): ResolvedTemporal {
  const { address, namespace, tls, apiKey, metadata } = configured()
  return {
    ...(tls !== undefined && { tls }),
    ...(apiKey !== undefined && { apiKey }),
    ...(metadata !== undefined && { metadata }),
    ...temporal,
    address: temporal.address ?? address ?? USUAL_ADDRESS,
    namespace: temporal.namespace ?? namespace ?? 'default',
  }
}

let warned = false

/** Says once in a process that nothing names a Temporal server and the usual address is assumed: what listens there may be a stranger's. */
export function warnIfAssumed(temporal: TemporalAddress | undefined, logger: Logger | undefined): void {
  if (warned || temporal?.address !== undefined || configured().address !== undefined) return
  warned = true
  const text = `pawl: nothing says where Temporal is, so ${USUAL_ADDRESS} is assumed. Set TEMPORAL_ADDRESS, give { temporal: { address } }, or run \`pawl dev\` in this folder.`
  if (logger) logger.warn({ temporal: USUAL_ADDRESS }, text)
  else process.emitWarning(text, { type: 'PawlWarning', code: 'PAWL_TEMPORAL_ASSUMED' })
}

function configured(): Partial<ResolvedTemporal> {
  const { connectionOptions, namespace } = loadClientConnectConfig()
  return { ...(connectionOptions as Partial<ResolvedTemporal>), ...(namespace !== undefined && { namespace }) }
}

/** A client of our own. @throws ConnectError `no_temporal`. */
export async function connectClient(
  temporal: TemporalAddress,
  dataConverter?: DataConverter,
): Promise<{ client: Client; close(): Promise<void> }> {
  const { namespace, ...where } = resolveTemporal(temporal)
  try {
    const connection = await Connection.connect({
      ...where,
      connectTimeout: CONNECT_TIMEOUT_MS,
      interceptors: [boundCalls, ...interceptors()],
    })
    return {
      client: new Client({ connection, namespace, ...(dataConverter && { dataConverter: absoluteConverter(dataConverter) }) }),
      close: () => connection.close(),
    }
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
