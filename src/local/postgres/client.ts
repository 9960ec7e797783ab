// Single statements on a Postgres of the stack, each over a connection of its own.
import pg from 'pg'

const CONNECT_MS = 10_000

/** Connects, does `work`, and disconnects. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS, application_name: 'pawl local stack' })
  // A server that goes away while idle rejects the next query; without a listener it would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** The same server, another database. */
export function urlOf(url: string, database: string): string {
  const other = new URL(url)
  other.pathname = `/${encodeURIComponent(database)}`
  return other.href
}

/** A URL that may be shown: without its password. */
export function shown(url: string): string {
  try {
    const copy = new URL(url)
    copy.password = ''
    copy.search = ''
    return copy.href
  } catch {
    return 'what DATABASE_URL says'
  }
}
