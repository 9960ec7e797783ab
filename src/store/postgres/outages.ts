// Logs outages of Postgres: one line when it stops answering and one when it answers again, however many statements fail in between.
import type { Client } from 'pg'
import type { Logger } from '../../agent/tool.ts'
import { reasonOf } from '../errors.ts'

/** Receives the outcomes of statements, and checks Postgres itself in case of doubt. */
export interface OutageWatch {
  /** Postgres has answered, even if with an error. */
  answered(): void
  /** A statement or an idle connection failed as if Postgres were unavailable. */
  failed(): void
  close(): void
}

export interface WatchOptions {
  /** The address to log. */
  address: string
  /** A connection that is not connected yet. */
  newClient(): Client
  logger: Logger
  /** `always` checks Postgres from the start and while it is unused, so that an idle process notices an outage, too. */
  when: WatchMode
}

/** Whether Postgres is checked only after failed statements, or also at intervals. */
export type WatchMode = 'always' | 'in_use'

const IDLE_MS = 15_000
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 10_000
const ANSWER_MS = 5_000

/** Starts watching. Does not keep the process alive. */
export function watchOutages({ address, newClient, logger, when }: WatchOptions): OutageWatch {
  let lostAt: number | undefined
  let asking = false
  let closed = false
  let retries = 0
  let timer: NodeJS.Timeout | undefined

  function later(delayMs: number): void {
    clearTimeout(timer)
    if (closed) return
    timer = setTimeout(() => void ask(), delayMs)
    timer.unref()
  }

  /** Checks Postgres: a failed statement may have other causes, such as an exhausted pool or a proxy that closed the connection. */
  async function ask(): Promise<void> {
    if (asking || closed) return
    asking = true
    try {
      await probe(newClient())
      answered()
    } catch (error) {
      lost(error)
    } finally {
      asking = false
    }
  }

  function lost(error: unknown): void {
    if (closed) return
    if (lostAt === undefined) {
      lostAt = Date.now()
      retries = 0
      logger.warn(
        { postgres: address },
        `Postgres at ${address} does not answer (${reasonOf(error)}). Live sessions continue, and pending writes are stored when it is back.`,
      )
    }
    later(Math.min(FIRST_RETRY_MS * 2 ** retries++, LAST_RETRY_MS))
  }

  function answered(): void {
    if (closed) return
    if (lostAt !== undefined) {
      const seconds = Math.round((Date.now() - lostAt) / 1_000)
      lostAt = undefined
      // A warning, so that it is visible wherever the first line was.
      logger.warn({ postgres: address }, `Postgres at ${address} answers again, after ${seconds} s.`)
    }
    if (when === 'always') later(IDLE_MS)
  }

  if (when === 'always') void ask()
  return {
    answered,
    failed() {
      if (lostAt === undefined) void ask()
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}

async function probe(client: Client): Promise<void> {
  // A broken connection fails the statement; without a listener, its error event would end the process.
  client.on('error', () => {})
  try {
    const connecting = client.connect()
    // This member is not in pg's types.
    ;(client as Client & { unref?: () => void }).unref?.()
    await connecting
    await client.query({ text: 'select 1', query_timeout: ANSWER_MS } as { text: string })
  } finally {
    // A hanging server never confirms that the connection has ended.
    void client.end().catch(() => {})
  }
}
