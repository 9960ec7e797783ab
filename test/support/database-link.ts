// A line to Postgres that a test can cut: what goes through it fails as it does when the database is away, for this test alone.
import { createServer, type Socket, connect } from 'node:net'
import type { AddressInfo } from 'node:net'

/** A line to the database. */
export interface DatabaseLink {
  /** The database's URL through this line. */
  readonly url: string
  /** Breaks all connections and refuses new ones. */
  cut(): void
  mend(): void
  close(): Promise<void>
}

/** Lays a line to the database at `databaseUrl`. */
export async function linkTo(databaseUrl: string): Promise<DatabaseLink> {
  const { hostname, port } = new URL(databaseUrl)
  const open = new Set<Socket>()
  let isCut = false
  const server = createServer((near) => {
    if (isCut) return void near.destroy()
    const far = connect(Number(port), hostname)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        open.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const breakAll = (): void => {
    for (const socket of open) socket.destroy()
  }
  return {
    url: url.href,
    cut() {
      isCut = true
      breakAll()
    },
    mend() {
      isCut = false
    },
    async close() {
      breakAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
