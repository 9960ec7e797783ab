// Where a Temporal server is: a type that everything in this folder may import.
import type { ConnectionOptions } from '@temporalio/client'

/** Where Temporal is, as plain data; absent members come from `TEMPORAL_*` and the profile file. */
export interface TemporalAddress {
  /** Host and port. Default: `TEMPORAL_ADDRESS`, the profile file. */
  address?: string
  /** Temporal namespace. Default: `TEMPORAL_NAMESPACE`, the profile file, `default`. */
  namespace?: string
  /** API key. A function is called for each connection, and about once a minute, so that keys can be rotated. */
  apiKey?: string | (() => string)
  /** TLS, as Temporal's client accepts it. Default: the environment's and the profile file's. */
  tls?: NonNullable<ConnectionOptions['tls']>
}
