// Runs single statements on the stack's Postgres, each over its own connection.
import pg from 'pg'

const CONNECT_MS = 10_000

/** Connects, calls `work`, and disconnects. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS, application_name: 'pawl local stack' })
  // If the server stops while the connection is idle, the next query is rejected. Without a listener, the error would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** The URL of another database on the same server. */
export function urlOf(url: string, database: string): string {
  const other = new URL(url)
  other.pathname = `/${encodeURIComponent(database)}`
  return other.href
}

/** The URL without its password, for messages. */
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
