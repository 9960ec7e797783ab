// Sends notifications to webhooks. For each webhook, one orchestrator of the deployment at a time reads the feed, queues what the webhook is
// notified of, and sends it: at least once, and in order for each session.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../../agent/tool.ts'
import type { SessionEvent } from '../../../session/events.ts'
import { eventsBehind, notificationOf } from '../../../session/notifications.ts'
import type { Store } from '../../../store/store.ts'
import type { FeedItem } from '../../../store/listed.ts'
import type { Key } from '../../../store/filters.ts'
import { type ActiveWebhook, consumerOf, type StoredDelivery } from '../../../store/webhooks.ts'
import { SUGGESTIONS } from '../../../session/suggestions.ts'
import { defined } from '../../../session/defined.ts'
import { inTime } from '../../../waiting/in-time.ts'
import { wakeable } from '../../../waiting/wakeable.ts'
import { pauseAfter } from './backoff.ts'
import { post } from './post.ts'
import { requestFor } from './request.ts'

export interface WebhookNeeds {
  store: Pick<Store, 'webhooks' | 'events' | 'leaseFeed' | 'passFeed' | 'releaseFeed' | 'lists' | 'watch'>
  logger: Logger
  /** The identity of this process, and those of dead ones whose leases it takes over. */
  holder: string
  succeeds?: readonly string[] | undefined
  /** Whether targets may have private addresses. */
  allowsPrivate: boolean
}

/** How often each orchestrator looks for webhooks that were created, paused or removed, and for those whose holder has died. */
const LOOK_MS = 3_000
/** After the death of the holder's worker, another worker continues within this time plus `LOOK_MS`. */
const LEASE_MS = 9_000
/** How old the lease may become before it is renewed, if the feed has nothing new. */
const RENEW_MS = 3_000
/** Minimum time between two reads of the feed, so that busy sessions share a statement. */
const PACE_MS = 50
/** Pause after a failure of the store; doubled each time. */
const RETRY_MS = { first: 1_000, last: 30_000 }
/** Requests in progress for each webhook, each of another session. */
const AT_ONCE = 10
/** How long a target may take to answer. */
const ANSWER_MS = 15_000
/** How long a worker that is shutting down waits for answers. A request without one is made again. */
const GOODBYE_MS = 2_000
/** By it a target says that it wants nothing more. */
const GONE = 410

/** Starts sending; the returned function ends it, and lets other orchestrators continue at once. */
export function sendWebhooks(needs: WebhookNeeds): () => Promise<void> {
  const { store, logger } = needs
  const senders = new Map<string, { settings: string; end: () => Promise<void> }>()
  /** Senders that wait for answers of their targets. Nothing else waits for them but their own successors. */
  const ending = new Map<string, Promise<void>>()
  const waits = wakeable()
  let isClosing = false

  async function look(): Promise<void> {
    const active = await store.webhooks.active()
    for (const [id, { settings, end }] of senders) {
      if (active.some((webhook) => webhook.id === id && JSON.stringify(webhook) === settings)) continue
      senders.delete(id)
      const ended = end().finally(() => {
        ending.delete(id)
        waits.wake()
      })
      ending.set(id, ended)
    }
    for (const webhook of active) {
      if (senders.has(webhook.id) || ending.has(webhook.id) || isClosing) continue
      senders.set(webhook.id, { settings: JSON.stringify(webhook), end: startSender(webhook, needs) })
    }
  }

  async function run(): Promise<void> {
    while (!isClosing) {
      waits.begin()
      await look().catch((err: unknown) => logger.debug({ err }, 'the webhooks could not be read'))
      await waits.atMost(LOOK_MS)
    }
  }

  const running = run()
  return async () => {
    isClosing = true
    waits.end()
    await inTime(running, GOODBYE_MS)
    await Promise.all([...ending.values(), ...[...senders.values()].map(({ end }) => end())])
  }
}

/** Sends to one webhook while this process holds its lease. */
function startSender(webhook: ActiveWebhook, { store, logger, holder, succeeds, allowsPrivate }: WebhookNeeds): () => Promise<void> {
  const { id: webhookId, url } = webhook
  const consumer = { name: consumerOf(webhookId), holder, succeeds }
  const filter = {
    types: eventsBehind(webhook.types),
    ...defined({ agent: webhook.agent ?? undefined, idPrefix: webhook.idPrefix ?? undefined }),
  }
  const end = new AbortController()
  const waits = wakeable()
  /** Requests in progress, by session. */
  const sending = new Map<string, Promise<void>>()
  /** Where this process is in the feed, while it holds the lease. */
  let held: { place: Key; at: number } | undefined
  let endWatch: (() => void) | undefined
  let isClosing = false
  /** Until then, the pause of a target that is gone may not have ended this sender yet. */
  let goneUntil = 0
  let failures = 0

  /** Keeps the lease, queues what is new, and begins what is due. Returns how long nothing more can be done without being woken. */
  async function step(): Promise<number> {
    if (!held || performance.now() - held.at > RENEW_MS) await lease()
    if (!held) return LOOK_MS
    // Only the holder is woken by each flush.
    endWatch ??= store.watch('*', waits.wake)
    const isMore = await queueNew(held.place)
    const room = AT_ONCE - sending.size
    const mayBegin = room > 0 && !isClosing && performance.now() > goneUntil
    if (mayBegin) for (const delivery of await store.webhooks.due(webhookId, room, [...sending.keys()])) begin(delivery)
    if (isMore) return 0
    // The end of a request wakes the loop.
    return sending.size < AT_ONCE ? store.webhooks.nextDue(webhookId, LOOK_MS, [...sending.keys()]) : LOOK_MS
  }

  async function lease(): Promise<void> {
    held = undefined
    const at = performance.now()
    const place = await store.leaseFeed(consumer, LEASE_MS)
    if (place) held = { place, at }
  }

  async function queueNew(place: Key): Promise<boolean> {
    const { items, next, more } = await store.lists.feed(filter, place)
    await store.webhooks.queue(items.flatMap(({ item }) => queuedOf(item)))
    if (JSON.stringify(next) === JSON.stringify(place)) return false
    const at = performance.now()
    const isHeld = await store.passFeed(consumer, { from: place, to: next }, LEASE_MS)
    held = isHeld ? { place: next, at } : undefined
    return isHeld && more
  }

  function queuedOf({ sessionId, agent, event }: FeedItem) {
    const notification = notificationOf(event)
    if (!notification || !webhook.types.includes(notification.type)) return []
    return [{ webhookId, sessionId, seq: event.seq, agent, happenedAt: new Date(event.at), ...notification }]
  }

  function begin(delivery: StoredDelivery): void {
    const { sessionId } = delivery
    const done = send(delivery)
      .catch(async (err: unknown) => {
        logger.debug({ webhook: webhookId, session: sessionId, err }, 'a notification could not be recorded: it is sent again')
        // The store may work again for everything else, and the delivery is still due.
        await sleep(RETRY_MS.first, undefined, { signal: end.signal }).catch(() => undefined)
      })
      .finally(() => {
        sending.delete(sessionId)
        waits.wake()
      })
    sending.set(sessionId, done)
  }

  async function send(delivery: StoredDelivery): Promise<void> {
    const { sessionId, seq, attempts, queuedAt } = delivery
    const event = webhook.withContent ? await eventAt(sessionId, seq) : undefined
    const error = await refusalOf(delivery, event)
    if (error === undefined) return store.webhooks.delivered(delivery)
    // The worker shuts down: the next holder makes the request again.
    if (end.signal.aborted) return
    const againInMs = pauseAfter(attempts, Date.now() - queuedAt.getTime(), error.askedMs)
    await store.webhooks.failed(delivery, { error: error.text, againInMs })
    const about = { webhook: webhookId, session: sessionId, seq, attempts: attempts + 1, error: error.text }
    if (againInMs === null) logger.error(about, `a notification was given up: send it again with \`${SUGGESTIONS.redeliver(webhookId)}\``)
    else logger.warn({ ...about, againInMs }, 'a webhook did not accept a notification: pawl sends it again')
    if (error.isGone) {
      goneUntil = performance.now() + 2 * LOOK_MS
      await store.webhooks.pause(webhookId, true, 'its target (410 Gone)')
      // Without the address, which may grant access.
      logger.warn(
        { webhook: webhookId },
        `a webhook is paused, because its target is gone: resume it with \`${SUGGESTIONS.resumeWebhook(webhookId)}\``,
      )
    }
  }

  /** Makes the request. Returns why it was not accepted. */
  async function refusalOf(
    delivery: StoredDelivery,
    event: SessionEvent | undefined,
  ): Promise<{ text: string; askedMs?: number; isGone?: boolean } | undefined> {
    const request = requestFor(webhook, delivery, new Date(), event)
    const late = AbortSignal.timeout(ANSWER_MS)
    try {
      const { status, retryAfterMs } = await post(url, request, { allowsPrivate, signal: AbortSignal.any([late, end.signal]) })
      if (status >= 200 && status < 300) return undefined
      const redirected = status >= 300 && status < 400 ? '; redirects are not followed' : ''
      return { text: `HTTP ${status}${redirected}`, isGone: status === GONE, ...defined({ askedMs: retryAfterMs }) }
    } catch (error) {
      return { text: late.aborted ? `no answer within ${ANSWER_MS / 1_000} s` : (error as Error).message }
    }
  }

  async function eventAt(sessionId: string, seq: number): Promise<SessionEvent | undefined> {
    const [event] = await store.events(sessionId, { after: seq - 1, limit: 1 })
    return event?.seq === seq ? event : undefined
  }

  async function run(): Promise<void> {
    while (!end.signal.aborted) {
      waits.begin()
      let ms: number
      try {
        ms = await step()
        failures = 0
      } catch (err) {
        held = undefined
        if (failures === 0) logger.debug({ webhook: webhookId, err }, 'the store is unavailable: notifications wait')
        failures += 1
        await waits.atLeast(Math.min(RETRY_MS.first * 2 ** (failures - 1), RETRY_MS.last))
        continue
      }
      await waits.atLeast(PACE_MS)
      if (ms > 0) await waits.atMost(ms)
    }
  }

  const running = run()
  return async () => {
    // Answers may still arrive; nothing new begins.
    isClosing = true
    endWatch?.()
    await inTime(Promise.all(sending.values()), GOODBYE_MS)
    end.abort()
    waits.end()
    await inTime(running, GOODBYE_MS)
    await inTime(
      store
        .releaseFeed(consumer)
        .catch((err: unknown) => logger.debug({ err }, 'the lease of a webhook could not be released; it expires by itself')),
      GOODBYE_MS,
    )
  }
}
