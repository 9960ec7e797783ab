// Reads the events that the event log lacks, oldest first: from the session's executions by paged queries, and from the store.
import type { ReadTarget } from '../calls/reads.ts'
import type { Client } from '@temporalio/client'
import { queryEvents } from '../connect/session-queries.ts'
import { continues } from '../session/digest.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import { entriesOf } from '../session/protocol/pages.ts'
import type { EventsPage } from '../session/protocol/protocol.ts'
import type { Store } from '../store/store.ts'
import { StaleWatermark } from '../calls/errors.ts'

const QUERY_TIMEOUT_MS = 10_000

/** An execution that can be queried. */
interface QueryableExecution {
  sessionId: string
  executionId: string
  client: Client
}

/** Yields the entries above a watermark, up to the start of the next source. */
type Source = (from: Watermark) => AsyncGenerator<LogEntry[]>

/**
 * The entries above `from` up to the target's watermark, one execution (whose history is bounded) or one page of the store at a time.
 * Entries are yielded only once their digests are known to lead to the start of the next execution. @throws StaleWatermark.
 */
export async function* refill(target: ReadTarget, from: Watermark, client: Client, store: Store): AsyncGenerator<LogEntry[]> {
  let at = from
  for (const source of await sourcesOf(target, from, client, store)) {
    for await (const entries of source(at)) {
      if (!continues(at, entries)) throw new StaleWatermark('the execution has other events')
      yield entries
      at = entries.at(-1) ?? at
    }
  }
  if (at.digest !== target.watermark.digest) throw new StaleWatermark('the execution has other events')
}

/** Walks back from the newest execution to the source of the oldest entries. */
async function sourcesOf(target: ReadTarget, from: Watermark, client: Client, store: Store): Promise<Source[]> {
  const { sessionId } = target
  const sources: Source[] = []
  let upTo = target.watermark
  let executionId: string | undefined = target.executionId
  while (upTo.seq > from.seq) {
    if (executionId === undefined) throw new StaleWatermark('no execution and no store has the older events')
    const execution: QueryableExecution = { sessionId, executionId, client }
    const [end, first] = [upTo, await queryPage(execution, from.seq)]
    // If older events are needed too, this page is read again when its turn comes.
    const isOldest = first.base.seq <= from.seq
    sources.unshift((at) => ofExecution(execution, at, end, isOldest ? first : undefined))
    if (isOldest) break
    upTo = first.base
    executionId = first.previous
    if (await isStored(sessionId, upTo, store)) {
      const stored = upTo
      sources.unshift((at) => ofStore(sessionId, at, stored, store))
      break
    }
  }
  return sources
}

/** Yields all entries of one execution at once, because only the last digest proves them right. */
async function* ofExecution(
  execution: QueryableExecution,
  from: Watermark,
  upTo: Watermark,
  first?: EventsPage,
): AsyncGenerator<LogEntry[]> {
  const entries: LogEntry[] = []
  for (let page = first ?? (await queryPage(execution, from.seq)); ; page = await queryPage(execution, page.to.seq)) {
    for (const entry of entriesOf(page)) if (entry.seq <= upTo.seq) entries.push(entry)
    if (!page.more || page.to.seq >= upTo.seq) break
  }
  // An execution that has just continued the session has no entries of its own.
  const last = entries.at(-1) ?? from
  if (!continues(from, entries) || last.digest !== upTo.digest) throw new StaleWatermark('the execution has other events')
  yield entries
}

async function queryPage({ client, ...execution }: QueryableExecution, after: number): Promise<EventsPage> {
  const page = await queryEvents(client, execution, { after }, QUERY_TIMEOUT_MS)
  if (!page) throw new StaleWatermark('the execution is still loading')
  return page
}

/** Whether the store has this event and all earlier ones. False if the store is unavailable: earlier executions have the events, too. */
async function isStored(sessionId: string, { seq, digest }: Watermark, store: Store): Promise<boolean> {
  try {
    const [entry] = await store.entries(sessionId, { after: seq - 1, limit: 1 })
    return entry?.seq === seq && entry.digest === digest
  } catch {
    // The flusher logs the outage.
    return false
  }
}

async function* ofStore(sessionId: string, from: Watermark, upTo: Watermark, store: Store): AsyncGenerator<LogEntry[]> {
  let at = from
  while (at.seq < upTo.seq) {
    const page = (await store.entries(sessionId, { after: at.seq })).filter(({ seq }) => seq <= upTo.seq)
    const last = page.at(-1)
    if (!last) throw new StaleWatermark('events are missing in the store')
    // The store has no digest for the event before its first one.
    yield page.map((entry, index) => (index === 0 ? { ...entry, prev: at.digest } : entry))
    at = last
  }
}
