// Where a client finds Temporal and the side store.
import type { Client, Connection } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import type { Pool } from 'pg'
import type { Logger } from '../agent/tool.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { Wait } from '../connect/waits.ts'

/** What `Pawl.connect` takes; all of it has a default. */
export interface ConnectOptions {
  /**
   * Where Temporal is, or a connection or client of yours. Default: `TEMPORAL_*`, the `pawl dev` that runs in this folder or one above it,
   * the profile file, and last, with a warning, `127.0.0.1:7233`.
   */
  temporal?: TemporalAddress | Connection | Client
  /** Namespace, where `temporal` does not say it. */
  namespace?: string
  /** URL of the side store or a `pg.Pool` of yours; opened on first use. Default: `DATABASE_URL`, or that of the `pawl dev`; `false`: none. */
  postgres?: string | Pool | false
  /** Postgres schema. Default `pawl`. */
  schema?: string
  /** Default `pawl`. */
  taskQueue?: string
  dataConverter?: DataConverter
  /** Told when Postgres is lost, when it is back, and which Temporal is assumed where none is configured. Default: the last as a process warning. */
  logger?: Logger
  /** Told what a call waits for, such as `Postgres at db:5432/pawl`: after two seconds, and then every five. */
  onWait?: (wait: Wait) => void
}
