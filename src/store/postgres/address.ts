// Postgres addresses: invalid ones are refused at once, and valid ones are shown without the password.
import pg from 'pg'
import type { ClientConfig } from 'pg'
import { StoreError } from '../errors.ts'

/** Addresses that `pg` accepts: a URL, or the path of a socket. */
const ADDRESS = /^(postgres(ql)?:\/\/|socket:|\/)/i
const DEFAULT_PORT = 5432

/**
 * Checks that a text is a Postgres address. Does not check whether the server answers: it may be down temporarily.
 * @throws StoreError `invalid_postgres_url`.
 */
export function checkPostgresUrl(url: string): void {
  if (!ADDRESS.test(url)) throw notAnAddress(url)
  try {
    addressOf({ connectionString: url })
  } catch (cause) {
    throw notAnAddress(url, cause)
  }
}

/** `host:port/database`, with the defaults of `pg` and of the `PG…` environment variables. */
export function addressOf(config: ClientConfig): string {
  const { host, port, database } = new pg.Client(config)
  // A socket has a path, and a port only in its file's name.
  const server = host.startsWith('/') ? host : `${host}:${port || DEFAULT_PORT}`
  return database ? `${server}/${database}` : server
}

function notAnAddress(url: string, cause?: unknown): StoreError {
  // The message of `pg` does not repeat the address, which may contain a password.
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  return new StoreError(
    'invalid_postgres_url',
    `${shown(url)} is not the address of a Postgres server${why}. Set DATABASE_URL, or the option \`postgres\`, to postgres://user:password@host:5432/database.`,
    { cause },
  )
}

/** Shows a word unchanged, but only the scheme of anything that may contain a password. */
function shown(url: string): string {
  if (/^[\w.-]{1,60}$/.test(url)) return JSON.stringify(url)
  const [scheme] = /^[a-z][\w+.-]*:(\/\/)?/i.exec(url) ?? []
  return scheme === undefined ? 'The given text' : `"${scheme}…"`
}
