// Reads a session's events up to a watermark: from the event log, or else from other sources (`refill.ts`).
import type { ReadTarget } from '../calls/reads.ts'
import type { Client } from '@temporalio/client'
import { StaleWatermark } from '../calls/errors.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { Store } from '../store/store.ts'
import type { EventLog } from './needs.ts'
import { refill } from './refill.ts'

export interface SessionReader {
  /** The entries above `from` up to the watermark. @throws StaleWatermark. */
  entries(target: ReadTarget, from: Watermark, client: Client): Promise<LogEntry[]>
  /** The same, in parts that fit into one transaction, oldest first. @throws StaleWatermark. */
  parts(target: ReadTarget, from: Watermark, client: Client): AsyncGenerator<LogEntry[]>
}

/** Small enough for even a busy Postgres to write a part within the statement timeout. */
const PART_EVENTS = 1_000
const PART_BYTES = 2_000_000

/** Reads through the orchestrator's event log, which also caches events from other sources. */
export function sessionReader(log: EventLog, store: Store): SessionReader {
  async function entries(target: ReadTarget, from: Watermark, client: Client): Promise<LogEntry[]> {
    const logged = readLog(target, from)
    if (logged) return logged
    const refilled: LogEntry[] = []
    for await (const read of refill(target, from, client, store)) for (const entry of read) refilled.push(entry)
    log.append(target, refilled)
    return refilled
  }

  function readLog(target: ReadTarget, from: Watermark): LogEntry[] | undefined {
    const { watermark } = target
    if (from.seq !== watermark.seq) return log.read(target, from, watermark)
    if (from.digest !== watermark.digest) throw new StaleWatermark('what was read before differs')
    return []
  }

  async function* parts(target: ReadTarget, from: Watermark, client: Client): AsyncGenerator<LogEntry[]> {
    const logged = readLog(target, from)
    if (logged) return yield* cut(logged)
    let newest: LogEntry[] = []
    for await (const read of refill(target, from, client, store)) {
      yield* cut(read)
      newest = read
    }
    // Older entries are now in the store, and a flush does not read them again.
    log.append(target, newest)
  }

  return { entries, parts }
}

/** Splits entries into parts of limited count and size; a larger event becomes a part of its own. */
function* cut(entries: readonly LogEntry[]): Generator<LogEntry[]> {
  let part: LogEntry[] = []
  let bytes = 0
  for (const entry of entries) {
    if (part.length === PART_EVENTS || (part.length > 0 && bytes + entry.json.length > PART_BYTES)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(entry)
    bytes += entry.json.length
  }
  if (part.length > 0) yield part
}
