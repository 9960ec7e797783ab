// Access to Postgres: a pool, statements with time limits, and transactions that work behind pgbouncer.
import { createHash } from 'node:crypto'
import pg from 'pg'
import type { Client, ClientConfig, Pool, PoolClient, PoolConfig } from 'pg'
import { inTime } from '../../waiting/in-time.ts'
import type { Logger } from '../../agent/tool.ts'
import { type TellWait, reportIfSlow } from '../../connect/waits.ts'
import { addressOf, checkPostgresUrl } from './address.ts'
import { asStoreError, isDeadlock, sqlState, StoreError } from '../errors.ts'
import { type WatchMode, watchOutages } from './outages.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'

/** A row as text, as Postgres sends it, independent of the user's type parsers for pg. */
export type TextRow = Record<string, string | null>

/** Runs statements. */
export interface Queryable {
  /** `often`: whether the same text is run again and again, so that it is worth preparing once for each connection. */
  query(text: string, values?: readonly unknown[], options?: { often?: boolean }): Promise<TextRow[]>
}

/**
 * Postgres. Every method rejects with `StoreError`. The server itself enforces the time limit of a transaction's statements; that of others,
 * only the driver does.
 */
export interface Database extends Queryable {
  /**
   * Runs `work` in a read-committed transaction, which is rolled back if `work` throws. It may run again, if Postgres has rolled it back.
   * `timeoutMs` bounds each of its statements. `first`: a statement without parameters.
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>, options?: { timeoutMs?: number; first?: string }): Promise<T>
  /** Runs `work` read-only; all its statements see the same moment. They must run one after another, because they share a connection. */
  snapshot<T>(work: (at: Queryable) => Promise<T>): Promise<T>
  /**
   * Runs `work` read-only, on one connection; each of its statements sees at least what the one before it saw. They must run one after
   * another.
   */
  sequence<T>(work: (on: Queryable) => Promise<T>): Promise<T>
  /** A client outside the pool, not connected yet. */
  newClient(): Client
  /** Closes the pool, if pawl created it. */
  close(): Promise<void>
}

/** Milliseconds within which a connection must be established, or become free in the pool. */
const CONNECT_MS = 10_000
/** Milliseconds that a statement may take. */
const STATEMENT_MS = 10_000
/** A hanging Postgres ignores its own timeouts, so the driver gives up this much later. */
const DRIVER_GRACE_MS = 2_000
/** A flusher that freezes during a transaction must not keep the session's row locked. */
const IDLE_IN_TRANSACTION_MS = 20_000

const GOODBYE_MS = 2_000

const AS_TEXT = { getTypeParser: () => (value: unknown) => value }

/** Options for watching a database. */
export interface DatabaseOptions {
  /** Logs when Postgres becomes unavailable, and when it answers again. */
  logger?: Logger | undefined
  /** Default `in_use`. */
  watch?: WatchMode | undefined
  /** Called when a statement or its connection is slow. */
  onWait?: TellWait | undefined
}

/** Opens nothing yet: the first statement connects. @throws StoreError `invalid_postgres_url`. */
export function databaseAt(postgres: string | Pool, { logger, watch = 'in_use', onWait }: DatabaseOptions = {}): Database {
  const isOurs = typeof postgres === 'string'
  if (isOurs) checkPostgresUrl(postgres)
  const pool = isOurs ? ownPool(postgres) : postgres
  const config: PoolConfig = pool.options
  const address = addressOf(config)
  const newClient = (): Client => new pg.Client(clientConfig(config))
  const outages = logger && watchOutages({ address, newClient, logger, when: watch })
  let closed = false
  let isPreparing = true
  // Our own pool reports lost idle connections here; a user's pool reports them to the user.
  if (isOurs) pool.on('error', () => outages?.failed())
  // The pool removes its own listener before it passes on a new connection: an error in the same packet would then have no listener.
  const guard = (client: PoolClient): void => void client.on('error', ignore)
  pool.on('connect', guard)

  async function withClient<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    if (closed) throw new StoreError('store_closed', 'The side store was closed. Open another one.')
    const client = await checkOut(pool)
    // A broken connection fails its statement; without a listener, its error event would end the process.
    client.on('error', ignore)
    let broken = true
    try {
      const result = await work(client)
      broken = false
      return result
    } catch (error) {
      // After one of pawl's own errors, the connection is still usable.
      broken = !(error instanceof StoreError)
      throw error
    } finally {
      client.off('error', ignore)
      client.release(broken)
    }
  }

  async function asStored<T>(work: Promise<T>): Promise<T> {
    try {
      const result = await reportIfSlow(onWait, `Postgres at ${address}`, work)
      outages?.answered()
      return result
    } catch (cause) {
      const error = asStoreError(cause, address)
      if (error.code === 'store_unavailable') outages?.failed()
      throw error
    }
  }

  /** A pooler may give each transaction another connection, which lacks the statements that were prepared on the one before. */
  async function write<T>(work: (tx: Queryable) => Promise<T>, manner: TransactionManner): Promise<T> {
    const prepare = isPreparing
    try {
      return await withClient((client) => transact(client, work, { ...manner, prepare }))
    } catch (error) {
      if (!prepare || !isUnprepared(error)) throw error
      if (isPreparing) logger?.debug({ err: error }, 'statements are no longer prepared, because connections lose them')
      isPreparing = false
      return withClient((client) => transact(client, work, manner))
    }
  }

  return {
    query: (text, values) => asStored(despiteDeadlocks(() => withClient((client) => run(client, STATEMENT_MS, text, values)))),
    transaction: (work, { timeoutMs = STATEMENT_MS, first } = {}) =>
      asStored(despiteDeadlocks(() => write(work, { mode: WRITING, timeoutMs, first }))),
    snapshot: (work) => asStored(withClient((client) => transact(client, work, { mode: READING, timeoutMs: STATEMENT_MS }))),
    sequence: (work) => asStored(withClient((client) => transact(client, work, { mode: READING_ON, timeoutMs: STATEMENT_MS }))),
    newClient,
    async close() {
      if (closed) return
      closed = true
      outages?.close()
      pool.off('connect', guard)
      if (isOurs) await end(pool)
    },
  }
}

/**
 * Read-only statements that the server ends when their time is over, even if their process is gone: each has a transaction of its own. For
 * those whose work grows with the store. Two more round trips would only slow down one that finds a row by its key.
 */
export function boundedReads(database: Pick<Database, 'sequence'>): Queryable {
  return { query: (text, values) => database.sequence((on) => on.query(text, values)) }
}

const ignore = (): void => {}

function ownPool(connectionString: string): Pool {
  return new pg.Pool({
    connectionString,
    application_name: 'pawl',
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: 10_000,
    keepAlive: true,
    allowExitOnIdle: true,
  })
}

/** A hanging Postgres never confirms that a connection has ended, so the wait is limited. */
async function end(pool: Pool): Promise<void> {
  await inTime(pool.end(), GOODBYE_MS)
}

/** The time limit is needed because a user's pool may wait forever. */
function checkOut(pool: Pool): Promise<PoolClient> {
  return new Promise((resolve, reject) => {
    let late = false
    const timer = setTimeout(() => {
      late = true
      reject(new Error(`no connection within ${numberText(CONNECT_MS)} ms`))
    }, CONNECT_MS + DRIVER_GRACE_MS)
    pool.connect().then(
      (client) => {
        clearTimeout(timer)
        if (late) client.release()
        else resolve(client)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

async function run(
  client: PoolClient,
  timeoutMs: number,
  text: string,
  values: readonly unknown[] = [],
  isPrepared = false,
): Promise<TextRow[]> {
  const name = isPrepared && { name: nameOf(text) }
  const query = { ...name, text, values: [...values], types: AS_TEXT, query_timeout: timeoutMs + DRIVER_GRACE_MS }
  const result: { rows?: TextRow[] } = await client.query<TextRow>(query)
  return result.rows ?? []
}

/** The same for the same text in every process, because processes may share a pooler's connections. */
const nameOf = (text: string): string => `pawl_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`

const WRITING = 'read committed read write'
const READING = 'repeatable read read only'
const READING_ON = 'read committed read only'

interface TransactionManner {
  mode: string
  timeoutMs: number
  first?: string | undefined
  /** Whether statements that are run often are prepared. */
  prepare?: boolean
}

/** `invalid_sql_statement_name`, `duplicate_prepared_statement`, and a plan whose tables a migration has changed. */
const UNPREPARED = new Set(['26000', '42P05', '0A000'])

const isUnprepared = (error: unknown): boolean => UNPREPARED.has(sqlState(error) ?? '')

const DEADLOCK_ATTEMPTS = 5

/**
 * Of transactions that wait for each other, Postgres rolls one back, of which nothing has happened. Several writers lock many rows in one
 * statement, in an order that only Postgres knows (an erasure, a prune, the removal of a webhook).
 */
async function despiteDeadlocks<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isDeadlock(error) || attempt === DEADLOCK_ATTEMPTS) throw error
    }
  }
}

async function transact<T>(
  client: PoolClient,
  work: (tx: Queryable) => Promise<T>,
  { mode, timeoutMs, first, prepare = false }: TransactionManner,
): Promise<T> {
  // One round trip. `set local`, because a pooler assigns the next transaction to another connection.
  const begin = [
    `begin isolation level ${mode}`,
    `set local statement_timeout = ${timeoutMs}`,
    `set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS}`,
    ...(first === undefined ? [] : [first]),
  ].join('; ')
  await run(client, timeoutMs, begin)
  let result: T
  try {
    result = await work({ query: (text, values, { often = false } = {}) => run(client, timeoutMs, text, values, often && prepare) })
  } catch (error) {
    if (error instanceof StoreError) await run(client, timeoutMs, 'rollback')
    throw error
  }
  await run(client, timeoutMs, 'commit')
  return result
}

/** The password is not enumerable in a pool's options, so a spread alone would lose it. */
function clientConfig(config: PoolConfig): ClientConfig {
  const { password } = config
  return { ...config, ...defined({ password }), connectionTimeoutMillis: CONNECT_MS, keepAlive: true }
}
