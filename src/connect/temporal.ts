// Temporal's address, and a client for it: from the caller's options, otherwise from `TEMPORAL_*` and the profile file. pawl never assumes
// an address: the server on the usual port may belong to another team, and would receive the messages.
import { Client, Connection } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import { loadClientConnectConfig } from '@temporalio/envconfig'
import { interceptors } from './closed-channel.ts'
import { absoluteConverter } from './data-converter.ts'
import { boundCalls } from './deadline.ts'
import { findDevDeployment } from './dev-stack.ts'
import { ConnectError } from './errors.ts'
import type { TemporalAddress } from './temporal-address.ts'
import { defined } from '../session/defined.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

export type { TemporalAddress } from './temporal-address.ts'

/** A complete address. */
export interface ConfiguredTemporal extends TemporalAddress {
  address: string
  namespace: string
  metadata?: Record<string, string>
}

const CONNECT_TIMEOUT_MS = 10_000
const REASON_TIMEOUT_MS = 2_000
const REASON_CALLS = 5

/** Where Temporal is, from all sources; namespace `default` if none names one. @throws ConnectError `not_configured`. */
export function configuredTemporal(temporal: TemporalAddress = {}): ConfiguredTemporal {
  const { address: known, namespace, tls, apiKey, metadata } = fromEnvironment()
  // Compose files and shells leave empty variables behind.
  const address = temporal.address || known
  if (!address) throw notConfigured()
  return { ...defined({ tls, apiKey, metadata }), ...temporal, address, namespace: temporal.namespace ?? namespace ?? 'default' }
}

/** The namespace, from all sources, for a connection that already exists. */
export function configuredNamespace(): string {
  return fromEnvironment().namespace ?? 'default'
}

function fromEnvironment(): Partial<ConfiguredTemporal> {
  const { connectionOptions, namespace } = loadClientConnectConfig()
  return { ...(connectionOptions as Partial<ConfiguredTemporal>), ...defined({ namespace }) }
}

/** Variables that say how to connect but not where. */
const WITHOUT_ADDRESS = ['TEMPORAL_NAMESPACE', 'TEMPORAL_API_KEY', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'TEMPORAL_TLS']

function notConfigured(): ConnectError {
  const set = WITHOUT_ADDRESS.filter((name) => process.env[name])
  const missing = set.length > 0 ? ` (${set.join(' and ')} ${set.length > 1 ? 'do' : 'does'} not name an address)` : ''
  return new ConnectError(
    'not_configured',
    `No Temporal server is configured${missing}, and pawl does not guess one. Set TEMPORAL_ADDRESS (a local server's is usually 127.0.0.1:7233), ` +
      'pass { temporal: { address } }, or put the address into a profile file of Temporal (TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE). ' +
      `To start a local stack, run \`${SUGGESTIONS.develop()}\`: clients and commands in its folder or below find it automatically. (\`${SUGGESTIONS.startWorker()}\` does not: set TEMPORAL_ADDRESS and DATABASE_URL for it.)`,
  )
}

/** A client with its own connection. @throws ConnectError `not_configured`, `no_temporal`. */
export async function connectClient(
  temporal: TemporalAddress,
  dataConverter?: DataConverter,
): Promise<{ client: Client; connection: Connection; close(): Promise<void> }> {
  const { namespace, ...where } = configuredTemporal(temporal)
  try {
    const connection = await Connection.connect({
      ...where,
      connectTimeout: CONNECT_TIMEOUT_MS,
      interceptors: [boundCalls, ...interceptors()],
    })
    return {
      connection,
      client: new Client({ connection, namespace, ...(dataConverter && { dataConverter: absoluteConverter(dataConverter) }) }),
      close: () => connection.close(),
    }
  } catch (cause) {
    throw await whyNoTemporal(where, cause)
  }
}

/**
 * The error for a failed connection. When it connects, the SDK reports only a timeout or a broken pipe; a single call fails with the
 * reason. A server that refuses a TLS 1.3 client gives its reason after the handshake and then closes the connection. That answer may be
 * lost, so this makes several calls.
 */
export async function whyNoTemporal(where: Omit<ConfiguredTemporal, 'namespace'>, cause: unknown): Promise<ConnectError> {
  let reason = cause
  for (let calls = where.tls ? REASON_CALLS : 1; calls > 0 && tlsRefusal(reason) === undefined; calls--) {
    reason = (await failureOfCall(where).catch(() => undefined)) ?? reason
  }
  return noTemporal(where.address, reason)
}

async function failureOfCall(where: Omit<ConfiguredTemporal, 'namespace'>): Promise<unknown> {
  const connection = Connection.lazy({ ...where, interceptors: [] })
  try {
    await connection.withDeadline(Date.now() + REASON_TIMEOUT_MS, () => connection.workflowService.getSystemInfo({}))
    return undefined
  } catch (reason) {
    return reason
  } finally {
    await connection.close()
  }
}

/** The error for a server that does not answer, or for a failed TLS handshake. */
export async function noTemporal(address: string, cause: unknown): Promise<ConnectError> {
  const refusal = tlsRefusal(cause)
  const text =
    refusal === undefined
      ? await unansweredText(address)
      : `The TLS handshake with Temporal at ${address} failed (${refusal}). Check the CA and the client certificate in { temporal: { tls } }, or TEMPORAL_TLS_… and the profile file.`
  return new ConnectError('no_temporal', text, { cause })
}

/** pawl suggests a dev server only for a local address: in production, it would lose no messages, but would never answer them. */
const isLoopback = (address: string): boolean => /^(?:127\.|localhost:|\[::1\])/.test(address)

async function unansweredText(address: string): Promise<string> {
  const { temporal } = await findDevDeployment()
  return temporal?.address === address
    ? `Temporal at ${address} does not answer, although this folder's \`${SUGGESTIONS.develop()}\`, to which it belongs, is running. Try again. If it still does not answer, stop that command and start it again; its sessions are kept.`
    : `No Temporal server answers at ${address}. Check that it runs, and that this is its address ({ temporal: { address } } or TEMPORAL_ADDRESS).${isLoopback(address) ? ` If you are developing, unset the address: \`${SUGGESTIONS.develop()}\` starts a server.` : ''}`
}

/** How the SDK's two connections (native and Node's) report a failed handshake: the server's alert, or its untrusted certificate. */
const TLS_REFUSALS = [
  /fatal alert: (\w+)/,
  /InvalidCertificate\((\w+)\)/,
  /alert ([a-z ]+):/,
  /Last error: (?:Error: )?([^.]*certificate[^.]*)\./,
]

function tlsRefusal(cause: unknown): string | undefined {
  const message = cause instanceof Error ? cause.message : String(cause)
  return TLS_REFUSALS.flatMap((refusal) => refusal.exec(message)?.[1] ?? [])[0]
}
