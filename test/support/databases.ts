// A separate database for each test of a file, on the file's own Postgres, and stores on it.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { openStore, type Store, type StoreOptions } from '../../src/store/index.ts'
import { type Stack, startStack } from '../../src/testing/stack.ts'

/** What a test gets. */
export interface OwnDatabase {
  readonly stack: Stack
  readonly url: string
  /** Opens a store; closed when the test ends. */
  open(options?: Partial<StoreOptions>): Store
  closeStores(): Promise<void>
  /** Runs a statement without the store, on a new connection: Postgres may have been restarted in between. */
  sql(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
}

/** Registers the hooks that create and drop the databases; call it once, at the top of the file. */
export function ownDatabases(): OwnDatabase {
  let stack: Stack
  let url: string
  const opened: Store[] = []

  beforeAll(async () => {
    stack = await startStack({ postgres: ['embedded'] })
  })
  afterAll(() => stack?.stop())
  beforeEach(async () => {
    url = await stack.createDatabase()
  })
  afterEach(async () => {
    await closeStores()
    await stack.dropDatabase(url)
  })

  async function closeStores(): Promise<void> {
    await Promise.all(opened.splice(0).map((one) => one.close()))
  }

  return {
    get stack() {
      return stack
    },
    get url() {
      return url
    },
    open(options = {}) {
      const store = openStore({ postgres: url, ...options })
      opened.push(store)
      return store
    },
    closeStores,
    async sql(text, values = []) {
      const client = new pg.Client(url)
      await client.connect()
      try {
        return (await client.query(text, values)).rows
      } finally {
        await client.end()
      }
    },
  }
}
