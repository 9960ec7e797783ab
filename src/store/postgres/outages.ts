// Tells whether Postgres answers: one log line when it is lost and one when it is back, however many statements fail meanwhile.
import type { Client } from 'pg'
import type { Logger } from '../../agent/tool.ts'
import { reasonOf } from '../errors.ts'

/** Is told how statements fare, and asks Postgres itself where that leaves a doubt. */
export interface OutageWatch {
  /** Postgres has answered, if only to refuse a statement. */
  answered(): void
  /** A statement, or an idle connection, failed in a way that an absent Postgres would explain. */
  failed(): void
  close(): void
}

/** What is watched, and how. */
export interface WatchOptions {
  /** Where Postgres is, as the log names it. */
  address: string
  /** A connection that is not connected yet. */
  newClient(): Client
  logger: Logger
  /** `always` asks Postgres from the start and whenever no statement has lately, so that an idle process notices an outage too. */
  when: WatchWhen
}

/** Whether only failures of statements are followed up, or Postgres is asked at intervals as well. */
export type WatchWhen = 'always' | 'in_use'

const IDLE_MS = 15_000
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 10_000
const ANSWER_MS = 5_000

/** Watches. Keeps no process alive. */
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

  /** One failed statement proves nothing: the pool was exhausted, or its connection was closed by a proxy. */
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
        `pawl: Postgres at ${address} does not answer (${reasonOf(error)}). Live sessions continue; what cannot be stored now is stored when it is back.`,
      )
    }
    later(Math.min(FIRST_RETRY_MS * 2 ** retries++, LAST_RETRY_MS))
  }

  function answered(): void {
    if (closed) return
    if (lostAt !== undefined) {
      const seconds = Math.round((Date.now() - lostAt) / 1_000)
      lostAt = undefined
      // As a warning, so that it is seen wherever the first one was.
      logger.warn({ postgres: address }, `pawl: Postgres at ${address} answers again, after ${seconds} s.`)
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
  // A connection that breaks fails the statement; the same error emitted would end the process.
  client.on('error', () => {})
  try {
    const connecting = client.connect()
    // Not in pg's types.
    ;(client as Client & { unref?: () => void }).unref?.()
    await connecting
    await client.query({ text: 'select 1', query_timeout: ANSWER_MS } as { text: string })
  } finally {
    // A server that hangs never says goodbye.
    void client.end().catch(() => {})
  }
}
