// Notifies watchers of sessions. It sends one notification for all flushes within some milliseconds, outside their transactions, because
// a transaction that has notified commits under a server-wide lock.
import { inTime } from '../../waiting/in-time.ts'
import type { Logger } from '../../agent/tool.ts'
import { shortHash } from '../../session/digest.ts'
import type { Database } from './database.ts'

export interface Notifier {
  /** Reports that events of the session with this key were committed; `isNews`: they contain more than the steps of a run. */
  notify(key: string, isNews: boolean): void
  /** Resolves when pending notifications have been sent or have failed. */
  close(): Promise<void>
}

/** Minimum time between notifications; the first one is sent at once. */
const BETWEEN_MS = 50
/** Sessions per notification: Postgres accepts less than 8,000 bytes. */
const TOPICS_PER_NOTIFICATION = 450
const GOODBYE_MS = 1_000

/** The hash that a notification carries for any commit of the session. */
export function topicOf(key: string): string {
  return shortHash(key)
}

/** The hash that a notification carries when more than the steps of a run were committed. No key contains a line break. */
export function newsTopicOf(key: string): string {
  return shortHash(`news\n${key}`)
}

/** The hash that a notification carries when a model has streamed more. */
export function deltasTopicOf(key: string): string {
  return shortHash(`live\n${key}`)
}

/** Hashes as the payloads of notifications. */
export function payloadsOf(hashes: Iterable<string>): string[] {
  const all = [...hashes]
  return Array.from({ length: Math.ceil(all.length / TOPICS_PER_NOTIFICATION) }, (_, n) =>
    all.slice(n * TOPICS_PER_NOTIFICATION, (n + 1) * TOPICS_PER_NOTIFICATION).join(' '),
  )
}

/** The hashes in a notification. */
export function topicsIn(payload: string): string[] {
  return payload.split(' ')
}

/** A notifier on a channel. Failed notifications are dropped, because watchers also poll. */
export function notifierOn(database: Pick<Database, 'query'>, channel: string, logger: Logger | undefined): Notifier {
  const due = new Set<string>()
  let sending: Promise<void> | undefined
  let isClosing = false
  /** Ends the pause between two notifications. */
  let hurry = (): void => {}

  async function send(): Promise<void> {
    while (due.size > 0) {
      const payloads = payloadsOf(due)
      due.clear()
      try {
        for (const payload of payloads) await sendOne(payload)
      } catch (err) {
        logger?.debug({ err }, 'a notification could not be sent; watchers poll')
      }
      if (!isClosing) await pause()
    }
    sending = undefined
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, BETWEEN_MS)
      hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** A lost notification does no harm, so the commit need not wait for the disk while it holds the lock. */
  async function sendOne(payload: string): Promise<void> {
    await database.query(`select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, [channel, payload])
  }

  return {
    notify(key, isNews) {
      due.add(topicOf(key))
      if (isNews) due.add(newsTopicOf(key))
      sending ??= send()
    },
    async close() {
      isClosing = true
      hurry()
      if (sending) await inTime(sending, GOODBYE_MS)
    },
  }
}
