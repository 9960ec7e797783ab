// Where a client finds Temporal and the side store.
import { Client, Connection } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import type { Pool } from 'pg'
import { z } from 'zod'
import type { Logger } from '../agent/tool.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { Wait } from '../connect/waits.ts'
import { checkOptions, flag, fn, options, text, where } from '../options/check.ts'
import { isPool, logger, TEMPORAL_ADDRESS } from '../options/shared.ts'

/** Options of `Pawl.connect`; all of them have a default. */
export interface ConnectOptions {
  /**
   * Temporal's address, or your own connection or client, which you close yourself. Default: `TEMPORAL_*`, the `pawl dev` that runs in this
   * folder or one above it, the profile file. If none of them names a server, `connect` rejects.
   */
  temporal?: TemporalAddress | Connection | Client
  /** Namespace, if `temporal` does not name one. Default: `TEMPORAL_NAMESPACE`, else `default`. */
  namespace?: string
  /**
   * URL of the side store, or your own `pg.Pool`, which you close yourself; opened on first use. `false`: no side store.
   * Default: `DATABASE_URL`, or that of the `pawl dev`.
   */
  postgres?: string | Pool | false
  /** Postgres schema: 1 to 50 of `[A-Za-z0-9_]`, not beginning with a digit or `pg_`. Default `pawl`. */
  schema?: string
  /** Task queue of sessions that do not name one. Default `pawl`, or that of the `pawl dev`. */
  taskQueue?: string
  /**
   * Whether sessions have the search attributes `PawlAgent` and `PawlTags`, by which Temporal's own lists find them. They are stored in the
   * clear. A namespace that does not have the attributes is used without them. Default: true, but false if there are payload codecs.
   */
  searchAttributes?: boolean
  /** The data converter; it must be the same as the workers'. Not used with your own `Client`. Default: Temporal's. */
  dataConverter?: DataConverter
  /**
   * Logs when Postgres becomes unavailable and available again, events that a slice skipped, and sessions that do not use the context of a
   * later message. Default: the last two become process warnings.
   */
  logger?: Logger
  /** Called with what a call waits for, such as `Postgres at db:5432/pawl`: after two seconds, then every five. Default: none. */
  onWait?: (wait: Wait) => void
}

const MEMBERS = {
  namespace: text("a namespace's name").optional(),
  postgres: where<string | Pool | false>(
    (value) => value === false || typeof value === 'string' || isPool(value),
    'a URL such as postgres://user@host/database, a pg.Pool, or false',
  ).optional(),
  schema: text('the name of a Postgres schema').optional(),
  taskQueue: text("a task queue's name").optional(),
  dataConverter: z.unknown().optional(),
  searchAttributes: flag().optional(),
  logger: logger<Logger>().optional(),
  onWait: fn<(wait: Wait) => void>().optional(),
}

const AN_OBJECT = "an object such as { temporal: { address: '127.0.0.1:7233' } }"
const ADDRESSED = options({ temporal: TEMPORAL_ADDRESS.optional(), ...MEMBERS }, AN_OBJECT)
const WITH_OWN_CLIENT = options({ temporal: z.unknown(), ...MEMBERS }, AN_OBJECT)

/** Checks the options and returns them unchanged. @throws InvalidOptionError. */
export function checkConnect(given: ConnectOptions): ConnectOptions {
  const { temporal } = (given ?? {}) as Partial<ConnectOptions>
  checkOptions(temporal instanceof Client || temporal instanceof Connection ? WITH_OWN_CLIENT : ADDRESSED, given)
  return given
}
