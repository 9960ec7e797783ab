// Exports the spans of all sessions. It reads the feed, in one orchestrator of a deployment at a time.
import type { Logger } from '../../../agent/tool.ts'
import type { SessionEvent } from '../../../session/events.ts'
import { StoreError } from '../../../store/errors.ts'
import type { Store } from '../../../store/store.ts'
import type { FeedItem } from '../../../store/listed.ts'
import type { Key } from '../../../store/filters.ts'
import { isSampled } from '../../../telemetry/sampling.ts'
import type { Span } from '../../../telemetry/span.ts'
import { type TracedPast, type SessionTracker, trackSessions } from '../../../telemetry/tracking.ts'
import type { TraceSettings } from '../../telemetry-settings.ts'
import { type SpanSender, UnsendableSpans } from './otlp-traces.ts'
import { wakeable } from '../../../waiting/wakeable.ts'
import { withinTime } from './within-time.ts'

export interface ExportNeeds {
  store: Pick<Store, 'events' | 'stateAt' | 'newestRun' | 'leaseFeed' | 'passFeed' | 'releaseFeed' | 'lists' | 'watch'>
  sender: SpanSender
  settings: Pick<TraceSettings, 'contents' | 'share'>
  logger: Logger
  /** The identity of this process. */
  holder: string
}

const CONSUMER = 'traces'
/** After the death of the holder, another orchestrator continues within this time plus `LOOK_MS`. */
const LEASE_MS = 15_000
/** How often the holder renews the lease while it waits for a slow collector. */
const RENEW_MS = 5_000
/** How often the holder looks for events without being woken, and other orchestrators check whether the lease is free. */
const LOOK_MS = 5_000
/** Minimum time between two reads of the feed, so that busy sessions share a statement and a request. */
const PACE_MS = 500
/** Pause after a failure; doubled each time. */
const RETRY_MS = { first: 1_000, last: 30_000 }
/** How long a worker that is shutting down may take to export new spans. */
const GOODBYE_MS = 2_000
/** The largest request. Collectors refuse requests of several megabytes. */
const BATCH = { spans: 512, bytes: 1_000_000 }
/** How many times the refused requests of a page are split to find and leave out only the spans at fault. */
const MAX_DIVISIONS = 32
const EVENTS_PAGE = 1_000

/** Starts the export; the returned function ends it and lets another orchestrator continue at once. */
export function exportTraces(needs: ExportNeeds): () => Promise<void> {
  const { store, sender, settings, logger, holder } = needs
  const consumer = { name: CONSUMER, holder }
  const end = new AbortController()
  const waits = wakeable()
  let isClosing = false
  let isHeld = false
  let failures = 0
  let tracking = newTracking()
  let endWatch: (() => void) | undefined

  function newTracking(): SessionTracker {
    const onUnreadable = (session: string, err: unknown): void => {
      logger.warn({ session, err }, 'events of this session cannot be converted to spans: they are skipped')
    }
    return trackSessions(pastIn(store), { ...settings, onUnreadable })
  }

  /** Acquires or renews the lease, and exports what is new. Returns whether more can be read at once. */
  async function step(): Promise<boolean> {
    const place = await store.leaseFeed(consumer, LEASE_MS)
    if (!place) {
      isHeld = false
      return false
    }
    if (!isHeld) {
      // Another process may have exported more in the meantime.
      tracking = newTracking()
      logger.debug({ holder }, 'this worker exports the traces')
    }
    isHeld = true
    // Only the holder is woken by each flush.
    endWatch ??= store.watch('*', waits.wake)
    const { items, next, more } = await store.lists.feed({}, place)
    if (!isFurther(next, place)) return false
    const found = items.map(({ item }) => item)
    const spans = await spansOf(tracking, found)
    isHeld = await whileHeld((isLost) => deliver(spans, needs, isLost))
    isHeld &&= await store.passFeed(consumer, { from: place, to: next }, LEASE_MS)
    return isHeld && more
  }

  /** Renews the lease during the work, which takes as long as the collector does. Returns whether the lease was kept. */
  async function whileHeld(work: (isLost: () => boolean) => Promise<void>): Promise<boolean> {
    let isLost = false
    const renew = setInterval(() => {
      if (end.signal.aborted) return
      store.leaseFeed(consumer, LEASE_MS).then(
        (place) => (isLost ||= !place),
        (err: unknown) => logger.debug({ err }, 'the lease on the feed could not be renewed'),
      )
    }, RENEW_MS)
    try {
      await work(() => isLost || end.signal.aborted)
      return !isLost && !end.signal.aborted
    } finally {
      clearInterval(renew)
    }
  }

  async function run(): Promise<void> {
    while (!end.signal.aborted) {
      waits.begin()
      let isMore = false
      try {
        isMore = await step()
        if (failures > 0) logger.info({}, 'traces are exported again')
        failures = 0
      } catch (err) {
        if (isClosing) return
        // The tracked state is ahead of the position from which the export continues.
        tracking = newTracking()
        if (failures === 0) logger.warn({ err }, 'traces could not be exported: pawl retries, and no spans are lost')
        failures += 1
        await waits.atLeast(Math.min(RETRY_MS.first * 2 ** (failures - 1), RETRY_MS.last))
        continue
      }
      if (isMore) continue
      if (isClosing) return
      await waits.atLeast(PACE_MS)
      await waits.atMost(LOOK_MS)
    }
  }

  const running = run()
  return async () => {
    isClosing = true
    waits.end()
    await withinTime(running, GOODBYE_MS, logger)
    end.abort()
    endWatch?.()
    const left = store
      .releaseFeed(consumer)
      .catch((err: unknown) => logger.debug({ err }, 'the lease on the feed could not be released; it expires by itself'))
    await withinTime(Promise.all([left, sender.close()]), GOODBYE_MS, logger)
  }
}

async function deliver(
  spans: readonly Span[],
  { sender, settings, logger }: Pick<ExportNeeds, 'sender' | 'settings' | 'logger'>,
  isLost: () => boolean,
): Promise<void> {
  const batches = batchesOf(spans.filter(({ traceId }) => isSampled(traceId, settings.share)))
  let divisions = 0
  let refused: { spans: number; err: unknown } | undefined
  for (let batch = batches.shift(); batch && !isLost(); batch = batches.shift()) {
    try {
      await sender.send(batch)
    } catch (err) {
      if (!isRefusal(err)) throw err
      if (batch.length > 1 && divisions++ < MAX_DIVISIONS) {
        const half = Math.ceil(batch.length / 2)
        batches.unshift(batch.slice(0, half), batch.slice(half))
      } else refused = { spans: (refused?.spans ?? 0) + batch.length, err }
    }
  }
  if (refused) logger.warn(refused, 'the collector refused spans: they are dropped')
}

function pastIn({ events, stateAt, newestRun }: ExportNeeds['store']): TracedPast {
  return {
    async *events(sessionId, after, upTo) {
      while (after < upTo) {
        const page = await events(sessionId, { after, limit: Math.min(EVENTS_PAGE, upTo - after) })
        const last = page.at(-1)
        if (!last) return
        yield* page
        after = last.seq
      }
    },
    newestRun: async (sessionId, upTo) => (await newestRun(sessionId, upTo)) ?? undefined,
    async stateAt(sessionId, seq) {
      if (seq <= 0) return undefined
      try {
        return (await stateAt(sessionId, seq)) ?? undefined
      } catch (error) {
        if (error instanceof StoreError) throw error
        return undefined
      }
    },
  }
}

/** The spans of a page, in its order. Consecutive events of a session are projected together. */
async function spansOf(tracking: SessionTracker, items: readonly FeedItem[]): Promise<Span[]> {
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

/**
 * Whether the collector would refuse the same request again. Wrong credentials and addresses do not count, because an operator can fix
 * them.
 */
function isRefusal(error: unknown): boolean {
  if (error instanceof UnsendableSpans) return true
  const { code } = error as { code?: unknown }
  const mayBeFixed = [401, 403, 404, TIMEOUT, TOO_MANY]
  return typeof code === 'number' && code >= 400 && code < 500 && !mayBeFixed.includes(code)
}
