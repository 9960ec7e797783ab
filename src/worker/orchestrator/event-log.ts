// The event log in memory: a cache of sessions' events, limited in bytes, with digests that keep each session consistent.
import { LRUCache } from 'lru-cache'
import { timeOf } from '../../session/digest.ts'
import type { LogEntry, Watermark } from '../../session/events.ts'
import type { EventLog, LogKey } from '../../activities/needs.ts'

const DEFAULT_MAX_BYTES = 256 * 1024 * 1024

interface ExecutionLog {
  entries: LogEntry[]
  bytes: number
  /** The first event of the newest task, until it is known whether the server has accepted this task or a repetition by another worker. */
  inDoubt?: number
}

/** Makes a log of at most `maxBytes` of JSON text; the least recently used sessions are evicted first. */
export function memoryLog(maxBytes = DEFAULT_MAX_BYTES): EventLog {
  const sessions = new LRUCache<string, ExecutionLog>({ maxSize: maxBytes, sizeCalculation: (held) => held.bytes + 1 })
  const keyOf = ({ sessionId, epoch }: LogKey): string => `${epoch}\n${sessionId}`

  return {
    append(key, entries, made = 'accepted') {
      if (entries.length === 0) return
      const name = keyOf(key)
      const held = sessions.get(name) ?? { entries: [], bytes: 0 }
      for (const entry of entries) {
        if (made === 'in_task') addOfTask(held, entry)
        else addAccepted(held, entry)
      }
      // Removed and set again, because the cache computes the size of a value only once.
      sessions.delete(name)
      sessions.set(name, held)
    },
    read(key, from, to) {
      const held = sessions.get(keyOf(key))
      const first = held?.entries[0]
      if (!held || !first) return undefined
      const start = from.seq + 1 - first.seq
      const end = to.seq + 1 - first.seq
      if (start < 0 || held.entries[start]?.prev !== from.digest || held.entries[end - 1]?.digest !== to.digest) return undefined
      if (!isAccepted(held, to)) return undefined
      return held.entries.slice(start, end)
    },
  }
}

/**
 * Adds an entry of a task in progress. The server may reject the task, and this or another worker then repeats it. The events are the same
 * except for their time, which the digest leaves out.
 */
function addOfTask(held: ExecutionLog, entry: LogEntry): void {
  const last = held.entries.at(-1)
  const continues = last !== undefined && entry.seq === last.seq + 1 && entry.prev === last.digest
  // Only an accepted task is followed by another one.
  if (continues && timeOf(last) !== timeOf(entry)) delete held.inDoubt
  truncate(held, entry.seq)
  add(held, entry)
  held.inDoubt ??= entry.seq
}

/** Adds an entry from history. It proves nothing about the events before it, which are dropped if they are in doubt. */
function addAccepted(held: ExecutionLog, entry: LogEntry): void {
  if (held.inDoubt !== undefined && entry.seq > held.inDoubt) truncate(held, held.inDoubt)
  add(held, entry)
  if (entry.seq !== held.inDoubt) return
  held.inDoubt += 1
  if (entry.seq === held.entries.at(-1)?.seq) delete held.inDoubt
}

/** Adds one entry. If the cached entry differs, even if only in its time, it may come from a rejected task. */
function add(held: ExecutionLog, entry: LogEntry): void {
  const { entries } = held
  const first = entries[0]?.seq ?? entry.seq
  const at = entry.seq - first
  const known = entries[at]
  const before = entries[at - 1]
  if (known?.digest === entry.digest) {
    entries[at] = entry
    held.bytes += entry.json.length - known.json.length
  } else if (at < 0 || at > entries.length || (before && before.digest !== entry.prev)) {
    held.entries = [entry]
    held.bytes = entry.json.length
    delete held.inDoubt
  } else {
    truncate(held, entry.seq)
    entries.push(entry)
    held.bytes += entry.json.length
  }
}

/** Drops the entries from `seq` on. */
function truncate(held: ExecutionLog, seq: number): void {
  const at = seq - (held.entries[0]?.seq ?? seq)
  if (at < 0) return
  for (const dropped of held.entries.splice(at)) held.bytes -= dropped.json.length
  if (held.inDoubt !== undefined && held.inDoubt >= seq) delete held.inDoubt
}

/**
 * Whether the cached events up to the watermark are those of the accepted task that named the watermark. If the event at the watermark has
 * another time here, the task in doubt was rejected.
 */
function isAccepted(held: ExecutionLog, to: Watermark): boolean {
  if (held.inDoubt === undefined || to.seq < held.inDoubt) return true
  const entry = held.entries[to.seq - (held.entries[0]?.seq ?? 0)]
  // Executions of earlier builds do not name the time.
  const accepted = to.at === undefined || (entry !== undefined && timeOf(entry) === to.at)
  if (!accepted) truncate(held, held.inDoubt)
  delete held.inDoubt
  return accepted
}
