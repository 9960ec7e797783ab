// Wakes the watchers of sessions. The notifier sends one notification for all flushes within some milliseconds, outside their transactions,
// because a transaction that has notified commits under a server-wide lock. The listener has one LISTEN connection for all watchers of a
// store, open as long as there are any.
import { inTime } from '../../waiting/in-time.ts'
import type { Logger } from '../../agent/tool.ts'
import { shortHash } from '../../session/digest.ts'
import type { Database } from './database.ts'
import type { Client } from 'pg'

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

/**
 * What watchers of a session can be notified of. `everything`: all commits of events. `news`: only those with more than the steps of a run
 * (its start, its end, a request to a person). `deltas`: text that a model is streaming.
 */
export type NotificationKind = 'everything' | 'news' | 'deltas'

const TOPIC_OF = { everything: topicOf, news: newsTopicOf, deltas: deltasTopicOf } satisfies Record<
  NotificationKind,
  (key: string) => string
>

/** The shared listener. */
export interface Listener {
  watch(key: string, wake: () => void, which?: NotificationKind): () => void
  /** When the last notification for any session arrived, as `performance.now()`. */
  heardAt(): number
  close(): Promise<void>
}

/** This is not a valid session id. */
const EVERY_SESSION = '*'
const EVERY_TOPIC = topicOf(EVERY_SESSION)
const FIRST_RETRY_MS = 250
const LAST_RETRY_MS = 30_000
/** How long the connection of a reader stays open after its last watcher: runs are often watched one after another. */
const LINGER_MS = 5_000

/**
 * Connects for the first watcher and disconnects `lingerMs` after the last one leaves. If LISTEN is not possible, it wakes no watcher;
 * watchers also poll.
 */
export function listenerOn(channel: string, newClient: () => Client, logger: Logger | undefined, lingerMs = LINGER_MS): Listener {
  const watchers = new Map<string, Set<() => void>>()
  let client: Client | undefined
  let timer: NodeJS.Timeout | undefined
  let failures = 0
  let closed = false
  let heardAt = Number.NEGATIVE_INFINITY

  function connect(): void {
    const opened = newClient()
    client = opened
    opened.on('error', (error) => lost(opened, error))
    opened.on('end', () => lost(opened, undefined))
    opened.on('notification', ({ payload = '' }) => {
      heardAt = performance.now()
      for (const topic of [...topicsIn(payload), EVERY_TOPIC]) wakeAll(watchers.get(topic) ?? [], logger)
    })
    const connecting = opened.connect()
    holdProcess(opened, 'unref')
    connecting
      .then(() => opened.query(`listen "${channel}"`))
      .then(() => {
        // Called a second time, because TLS has replaced the socket.
        holdProcess(opened, 'unref')
        failures = 0
        // Commits before this moment were missed.
        wakeAll(
          [...watchers.values()].flatMap((wakes) => [...wakes]),
          logger,
        )
      })
      .catch((error: unknown) => lost(opened, error))
  }

  function lost(which: Client, error: unknown): void {
    if (which !== client) return
    client = undefined
    void which.end().catch(() => {})
    if (closed || watchers.size === 0) return
    if (failures++ === 0) logger?.debug({ err: error }, 'the LISTEN connection was lost; watchers poll until it is back')
    later(connect, Math.min(FIRST_RETRY_MS * 2 ** failures, LAST_RETRY_MS))
  }

  function later(what: () => void, delayMs: number): void {
    clearTimeout(timer)
    timer = setTimeout(() => {
      timer = undefined
      what()
    }, delayMs)
    timer.unref()
  }

  async function disconnect(): Promise<void> {
    const leaving = client
    client = undefined
    failures = 0
    if (!leaving) return
    // Keep the process alive until the connection has ended.
    holdProcess(leaving, 'ref')
    // A hanging Postgres never confirms that the connection has ended.
    await inTime(
      leaving.end().catch(() => {}),
      GOODBYE_MS,
    )
  }

  function unwatch(topic: string, wake: () => void): void {
    const wakes = watchers.get(topic)
    wakes?.delete(wake)
    if (wakes?.size === 0) watchers.delete(topic)
    if (watchers.size === 0 && !closed && Number.isFinite(lingerMs)) later(() => void disconnect(), lingerMs)
  }

  return {
    watch(key, wake, which = 'everything') {
      if (closed) return () => {}
      // A separate function per watcher, because the same `wake` may be passed twice.
      const own = (): void => wake()
      const topic = TOPIC_OF[which](key)
      const wakes = watchers.get(topic) ?? new Set()
      watchers.set(topic, wakes.add(own))
      if (client) clearTimeout(timer)
      else if (watchers.size === 1 && wakes.size === 1) {
        clearTimeout(timer)
        connect()
      }
      return () => unwatch(topic, own)
    },
    heardAt: () => heardAt,
    async close() {
      closed = true
      clearTimeout(timer)
      watchers.clear()
      await disconnect()
    },
  }
}

function wakeAll(wakes: Iterable<() => void>, logger: Logger | undefined): void {
  for (const wake of wakes) {
    try {
      wake()
    } catch (error) {
      logger?.warn({ err: error }, 'a watcher threw')
    }
  }
}

/** The connection must not keep the process alive; watchers do. The methods are not in pg's types. */
function holdProcess(client: Client, how: 'ref' | 'unref'): void {
  const hold = (client as Client & { ref?: () => void; unref?: () => void })[how]
  hold?.call(client)
}
