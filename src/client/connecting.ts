// Opens the connection to Temporal that a client's options name.
import { Client, Connection } from '@temporalio/client'
import { absoluteConverter } from '../connect/data-converter.ts'
import { connectClient, configuredNamespace, configuredTemporal, type TemporalAddress } from '../connect/temporal.ts'
import { reportIfSlow } from '../connect/waits.ts'
import type { ConnectOptions } from './connect-options.ts'
import { defined } from '../session/defined.ts'

/** Whether the options say which Temporal to connect to. */
export function namesTemporal({ temporal }: ConnectOptions): boolean {
  return temporal instanceof Client || temporal instanceof Connection || temporal?.address !== undefined
}

/** The namespace that the options name. */
export function namespaceOf({ temporal = {}, namespace }: ConnectOptions, found?: TemporalAddress): string {
  if (temporal instanceof Client) return temporal.options.namespace
  if (temporal instanceof Connection) return namespace ?? configuredNamespace()
  return namespace ?? temporal.namespace ?? found?.namespace ?? configuredNamespace()
}

/** The client, and a function that closes its connection if we opened it. `found`: the address of a `pawl dev`. */
export async function temporalClient(
  options: ConnectOptions,
  found?: TemporalAddress,
): Promise<{ client: Client; close(): Promise<void> }> {
  const { temporal = {}, dataConverter, onWait } = options
  const nothing = async (): Promise<void> => undefined
  if (temporal instanceof Client) return { client: temporal, close: nothing }
  if (temporal instanceof Connection) {
    const namespace = options.namespace ?? configuredNamespace()
    return {
      client: new Client({ connection: temporal, namespace, ...(dataConverter && { dataConverter: absoluteConverter(dataConverter) }) }),
      close: nothing,
    }
  }
  const where = { ...found, ...temporal, ...defined({ namespace: options.namespace }) }
  return reportIfSlow(onWait, `Temporal at ${configuredTemporal(where).address}`, connectClient(where, dataConverter))
}
