// Postgres addresses: invalid ones are refused at once, and valid ones are shown without the password.
import pg from 'pg'
import type { ClientConfig } from 'pg'
import { StoreError } from '../errors.ts'

/** Addresses that `pg` accepts: a URL, or the path of a socket. */
const ADDRESS = /^(postgres(ql)?:\/\/|socket:|\/)/i
const DEFAULT_PORT = 5432

/**
 * Checks that a text is a Postgres address. Does not check whether the server answers: it may be temporarily down.
 * @throws StoreError `invalid_postgres_url`.
 */
export function checkPostgresUrl(url: string): void {
  if (!ADDRESS.test(url)) throw notAnAddress(url)
  if (isCutShort(url)) throw notAnAddress(url)
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

/**
 * Whether the part before the path seems to end within the password, at a `/`, `?` or `#` that is not encoded. The rest may be a valid
 * address of another host, whose name would be a part of the password.
 */
function isCutShort(url: string): boolean {
  const [, rest = ''] = /^postgres(?:ql)?:\/\/[^/?#]*(.*)$/is.exec(url) ?? []
  const [path = '', query = ''] = rest.split(/\?(.*)/s)
  return rest.includes('#') || path.includes('@') || (query.includes('@') && !/^(\w+=[^&]*(&|$))+$/.test(query))
}

function notAnAddress(url: string, cause?: unknown): StoreError {
  // The message of `pg` does not repeat the address, which may contain a password.
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  const advice = [
    'Set DATABASE_URL, or the option `postgres`, to postgres://user:password@host:5432/database.',
    ...(/^postgres(ql)?:/i.test(url) ? ['In the user and the password, @ : / ? # and % must be percent-encoded, such as %23 for #.'] : []),
  ]
  return new StoreError('invalid_postgres_url', `${shown(url)} is not the address of a Postgres server${why}. ${advice.join(' ')}`, {
    cause,
  })
}

/** Shows a word unchanged, but only the scheme of anything that may contain a password. */
function shown(url: string): string {
  if (/^[\w.-]{1,60}$/.test(url)) return JSON.stringify(url)
  const [scheme] = /^[a-z][\w+.-]*:(\/\/)?/i.exec(url) ?? []
  return scheme === undefined ? 'The given text' : `"${scheme}…"`
}
