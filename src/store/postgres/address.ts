// Where Postgres is: refused at once if nothing can ever connect to it, and shown to people without its password.
import pg from 'pg'
import type { ClientConfig } from 'pg'
import { StoreError } from '../errors.ts'

/** What `pg` connects to: a URL, or the path of a socket. */
const ADDRESS = /^(postgres(ql)?:\/\/|socket:|\/)/i
const DEFAULT_PORT = 5432

/**
 * Checks that a text names a Postgres at all. Whether that one answers is not asked: it may be away, and come back.
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

/** `host:port/database`, with the defaults of `pg` and `PG…` where the configuration says nothing. */
export function addressOf(config: ClientConfig): string {
  const { host, port, database } = new pg.Client(config)
  // A socket has a path, and a port only in its file's name.
  const server = host.startsWith('/') ? host : `${host}:${port || DEFAULT_PORT}`
  return database ? `${server}/${database}` : server
}

function notAnAddress(url: string, cause?: unknown): StoreError {
  // `pg` says why without repeating what it was given.
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  return new StoreError(
    'invalid_postgres_url',
    `${shown(url)} is not the address of a Postgres server${why}. Set DATABASE_URL, or the option \`postgres\`, to postgres://user:password@host:5432/database.`,
    { cause },
  )
}

/** A word as it is; of anything that may hold a password only its beginning. */
function shown(url: string): string {
  if (/^[\w.-]{1,60}$/.test(url)) return JSON.stringify(url)
  const [scheme] = /^[a-z][\w+.-]*:(\/\/)?/i.exec(url) ?? []
  return scheme === undefined ? 'The text that was given' : `"${scheme}…"`
}
