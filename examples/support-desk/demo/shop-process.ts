// Starts the shop as a separate process, and follows the progress of its requests.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { Pool } from 'pg'
import { createShop } from '../shop/database.ts'
import type { Progress } from '../shop/progress.ts'
import type { ShopRecords } from '../shop/records.ts'

/** A running shop. */
export interface RunningShop {
  url: string
  /** Its database, which records everything that it did. */
  pool: Pool
  /** Calls back for everything that happens to a request, until the shop stops. */
  follow(told: (progress: Progress) => void): Promise<void>
  /** Keeps requests from finishing until `release`, except those whose X-Request-Id begins with one of `except`. */
  hold(except: readonly string[]): Promise<void>
  release(): Promise<void>
  stop(): Promise<void>
}

const SERVER = fileURLToPath(new URL('../shop/server.ts', import.meta.url))

/** Makes the shop's tables in an empty database, fills them, and starts its process. */
export async function startShop(options: { databaseUrl: string; records: ShopRecords; seed: number }): Promise<RunningShop> {
  const pool = new Pool({ connectionString: options.databaseUrl, max: 2 })
  pool.on('error', () => {}) // the next query fails, too
  await createShop(pool, options.records)
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), SERVER], {
    env: { ...process.env, SHOP_DATABASE_URL: options.databaseUrl, SHOP_SEED: String(options.seed) },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const started = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    ended.then(([code]) => {
      throw new Error(`The shop exited with code ${code} before it was ready: see its messages above.`)
    }),
  ])
  const { port } = JSON.parse(String(started[0])) as { port: number }
  const url = `http://127.0.0.1:${port}`
  const stopping = new AbortController()
  const tell = async (what: string, body: object): Promise<void> => {
    await fetch(`${url}/-/${what}`, { method: 'POST', body: JSON.stringify(body) })
  }
  return {
    url,
    pool,
    async follow(told) {
      const response = await fetch(`${url}/-/progress`, { signal: stopping.signal })
      if (!response.body) throw new Error('The shop does not report its progress: is another program listening there?')
      void read(Readable.fromWeb(response.body), told)
    },
    hold: (except) => tell('hold', { except }),
    release: () => tell('release', {}),
    async stop() {
      stopping.abort()
      child.stdin.end()
      await ended
      await pool.end()
    },
  }
}

async function read(stream: Readable, told: (progress: Progress) => void): Promise<void> {
  try {
    for await (const line of createInterface({ input: stream })) told(JSON.parse(line) as Progress)
  } catch (error) {
    if (!(error instanceof Error && error.name === 'AbortError')) throw error
  }
}
