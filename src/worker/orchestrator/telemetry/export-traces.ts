// Exports the spans of all sessions: a consumer of the feed, active in one orchestrator of a deployment at a time.
import type { Logger } from '../../../agent/tool.ts'
import type { SessionEvent } from '../../../session/events.ts'
import type { Store } from '../../../store/store.ts'
import type { FeedItem, Key } from '../../../store/rows.ts'
import { isSampled } from '../../../telemetry/sampling.ts'
import type { Span } from '../../../telemetry/span.ts'
import { type Past, type Tracking, trackSessions } from '../../../telemetry/tracking.ts'
import type { TraceSettings } from '../../telemetry-settings.ts'
import type { SpanSender } from './otlp-traces.ts'

/** What the exporter needs. */
export interface ExportNeeds {
  store: Pick<Store, 'events' | 'stateAt' | 'newestRun' | 'holdFeed' | 'passFeed' | 'leaveFeed' | 'lists' | 'watch'>
  sender: SpanSender
  settings: Pick<TraceSettings, 'contents' | 'share'>
  logger: Logger
  /** This process. */
  holder: string
}

const CONSUMER = 'traces'
/** After the death of the holder, another orchestrator continues within this time and `LOOK_MS`. A request to a collector may take 10 s. */
const LEASE_MS = 15_000
/** How often the holder looks without being woken, and another orchestrator whether the lease is free. */
const LOOK_MS = 5_000
/** After a failure; doubled each time. */
const RETRY_MS = { first: 1_000, last: 30_000 }
/** A request's size: collectors refuse those of some megabytes. */
const BATCH = { spans: 512, bytes: 1_000_000 }
const EVENTS_PAGE = 1_000

/** Starts; the returned function ends the export, and lets another orchestrator continue at once. */
export function exportTraces({ store, sender, settings, logger, holder }: ExportNeeds): () => Promise<void> {
  const consumer = { name: CONSUMER, holder }
  const end = new AbortController()
  let wake = (): void => undefined
  let isHeld = false
  let failures = 0
  let tracking = trackSessions(pastIn(store), settings)
  let endWatch: (() => void) | undefined

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
      if (end.signal.aborted) wake()
    })

  /** Takes the lease or renews it, and exports what is new. Returns whether more can be read at once. */
  async function step(): Promise<boolean> {
    const place = await store.holdFeed(consumer, LEASE_MS)
    if (!place) {
      isHeld = false
      return false
    }
    if (!isHeld) {
      // Another process may have come further meanwhile.
      tracking = trackSessions(pastIn(store), settings)
      logger.debug({ holder }, 'this worker exports the traces')
    }
    isHeld = true
    // Only the holder is woken by each flush.
    endWatch ??= store.watch('*', () => wake())
    const { items, next, more } = await store.lists.feed({}, place)
    if (!isFurther(next, place)) return false
    const spans = await spansOf(
      tracking,
      items.map(({ item }) => item),
    )
    for (const batch of batchesOf(spans.filter(({ traceId }) => isSampled(traceId, settings.share)))) {
      await deliver(batch)
      if (end.signal.aborted) return false
    }
    isHeld = await store.passFeed(consumer, next, LEASE_MS)
    return isHeld && more
  }

  /** Sends until the collector has accepted the spans, or refused them for good. */
  async function deliver(spans: readonly Span[]): Promise<void> {
    try {
      await sender.send(spans)
    } catch (err) {
      if (!isRefusal(err)) throw err
      logger.warn({ err, spans: spans.length }, 'the collector refused spans: they are left out')
    }
  }

  async function run(): Promise<void> {
    while (!end.signal.aborted) {
      let isMore = false
      try {
        isMore = await step()
        if (failures > 0) logger.info({}, 'traces are exported again')
        failures = 0
      } catch (err) {
        // What was tracked is ahead of the place from which the export continues.
        tracking = trackSessions(pastIn(store), settings)
        if (failures === 0) logger.warn({ err }, 'traces could not be exported: pawl retries, and leaves nothing out')
        failures += 1
        await pause(Math.min(RETRY_MS.first * 2 ** (failures - 1), RETRY_MS.last))
        continue
      }
      if (!isMore && !end.signal.aborted) await pause(LOOK_MS)
    }
    await store.leaveFeed(consumer).catch((err: unknown) => logger.debug({ err }, 'the lease on the feed expires by itself'))
  }

  const running = run()
  return async () => {
    end.abort()
    wake()
    endWatch?.()
    await running
    await sender.close()
  }
}

function pastIn({ events, stateAt, newestRun }: ExportNeeds['store']): Past {
  return {
    async events(sessionId, after, upTo) {
      const found: SessionEvent[] = []
      while (after < upTo) {
        const page = await events(sessionId, { after, limit: Math.min(EVENTS_PAGE, upTo - after) })
        const last = page.at(-1)
        if (!last) return found
        found.push(...page)
        after = last.seq
      }
      return found
    },
    newestRun: async (sessionId, upTo) => (await newestRun(sessionId, upTo)) ?? undefined,
    stateAt: async (sessionId, seq) => (seq > 0 ? ((await stateAt(sessionId, seq)) ?? undefined) : undefined),
  }
}

/** The spans of a page, in its order. Consecutive events of a session are projected together. */
async function spansOf(tracking: Tracking, items: readonly FeedItem[]): Promise<Span[]> {
  const spans: Span[] = []
  let sessionId = ''
  let events: SessionEvent[] = []
  for (const item of items) {
    if (item.sessionId !== sessionId || item.event.seq !== (events.at(-1)?.seq ?? 0) + 1) {
      spans.push(...(await tracking.add(sessionId, events)))
      sessionId = item.sessionId
      events = []
    }
    events.push(item.event)
  }
  spans.push(...(await tracking.add(sessionId, events)))
  return spans
}

function batchesOf(spans: readonly Span[]): Span[][] {
  const batches: Span[][] = []
  let bytes = 0
  for (const span of spans) {
    const size = JSON.stringify(span).length
    const batch = batches.at(-1)
    if (!batch || batch.length >= BATCH.spans || bytes + size > BATCH.bytes) {
      batches.push([span])
      bytes = size
    } else {
      batch.push(span)
      bytes += size
    }
  }
  return batches
}

function isFurther(next: Key, place: Key): boolean {
  return JSON.stringify(next) !== JSON.stringify(place)
}

const TIMEOUT = 408
const TOO_MANY = 429

/** Whether the collector will refuse the same request again. Wrong credentials and addresses can be put right. */
function isRefusal(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  const mayBeFixed = [401, 403, 404, TIMEOUT, TOO_MANY]
  return typeof code === 'number' && code >= 400 && code < 500 && !mayBeFixed.includes(code)
}
