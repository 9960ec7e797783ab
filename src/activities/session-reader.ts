// Reads a session's events up to a watermark: event log, then the workflow itself by paged queries, then the store, then earlier
// executions.
import type { Client } from '@temporalio/client'
import { StaleWatermark } from '../jobs/errors.ts'
import type { ReadTarget } from '../jobs/session-views.ts'
import { continues } from '../session/digest.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import { entriesOf } from '../session/pages.ts'
import { type EventsPage, QUERIES, workflowIdOf } from '../session/protocol.ts'
import type { Store } from '../store/store.ts'
import type { EventLog } from './needs.ts'

const QUERY_TIMEOUT_MS = 10_000

/** Reads sessions. */
export interface SessionReader {
  /** The entries above `from` up to the watermark. @throws StaleWatermark. */
  entries(target: ReadTarget, from: Watermark, client: Client): Promise<LogEntry[]>
}

/** A reader through the orchestrator's event log, which keeps what had to be read from elsewhere. */
export function sessionReader(log: EventLog, store: Store): SessionReader {
  return {
    async entries(target, from, client) {
      const { watermark } = target
      if (from.seq === watermark.seq) {
        if (from.digest !== watermark.digest) throw new StaleWatermark('what was read before differs')
        return []
      }
      const logged = log.read(target, from, watermark)
      if (logged) return logged
      const refilled = await refill(target, from, client, store)
      log.append(target, refilled)
      return refilled
    },
  }
}

/** Reads the entries above `from` up to the watermark from the executions and the store, newest execution first. */
async function refill(target: ReadTarget, from: Watermark, client: Client, store: Store): Promise<LogEntry[]> {
  const found: LogEntry[][] = []
  let upTo = target.watermark
  let executionId: string | undefined = target.executionId
  while (upTo.seq > from.seq) {
    if (executionId === undefined) throw new StaleWatermark('no execution and no store has the older events')
    const read: { entries: LogEntry[]; base: Watermark; previous?: string } = await queryExecution(
      target.sessionId,
      executionId,
      from,
      upTo,
      client,
    )
    found.unshift(read.entries)
    upTo = read.base.seq > from.seq ? read.base : from
    executionId = read.previous
    if (upTo.seq > from.seq) {
      const stored = await readStored(target.sessionId, from, upTo, store)
      if (stored) {
        found.unshift(stored)
        break
      }
    }
  }
  const entries = found.flat()
  if (!continues(from, entries) || entries.at(-1)?.digest !== target.watermark.digest) {
    throw new StaleWatermark('the execution has other events')
  }
  return entries
}

/** What one execution has of the entries above `from` up to `upTo`. */
async function queryExecution(
  sessionId: string,
  executionId: string,
  from: Watermark,
  upTo: Watermark,
  client: Client,
): Promise<{ entries: LogEntry[]; base: Watermark; previous?: string }> {
  const handle = client.workflow.getHandle(workflowIdOf(sessionId), executionId)
  const entries: LogEntry[] = []
  let after = from.seq
  for (;;) {
    const page = await client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, () =>
      handle.query<EventsPage, [object]>(QUERIES.events, { after }),
    )
    if (!('base' in page)) throw new StaleWatermark('the execution is still loading')
    entries.push(...entriesOf(page).filter((entry) => entry.seq <= upTo.seq))
    after = page.to.seq
    if (!page.more || after >= upTo.seq) {
      const { base, previous } = page
      return { entries, base, ...(previous !== undefined && { previous }) }
    }
  }
}

/** The stored entries above `from` up to `upTo`; undefined if the store is away or has not (all of) them. */
async function readStored(sessionId: string, from: Watermark, upTo: Watermark, store: Store): Promise<LogEntry[] | undefined> {
  const entries: LogEntry[] = []
  try {
    for (let after = from.seq; after < upTo.seq; ) {
      const page = await store.entries(sessionId, { after, limit: 1_000 })
      const last = page.at(-1)
      if (!last) return undefined
      entries.push(...page.filter((entry) => entry.seq <= upTo.seq))
      after = last.seq
    }
  } catch {
    // Earlier executions have the same; the store being away is told of by the flusher.
    return undefined
  }
  return entries.at(-1)?.digest === upTo.digest ? entries : undefined
}
