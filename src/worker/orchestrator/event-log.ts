// The event log in memory: a cache of sessions' events, limited in bytes, with digests that keep each session consistent.
import { LRUCache } from 'lru-cache'
import type { LogEntry } from '../../session/events.ts'
import type { EventLog, LogKey } from '../../activities/needs.ts'

const DEFAULT_MAX_BYTES = 256 * 1024 * 1024

interface Held {
  entries: LogEntry[]
  bytes: number
}

/** Makes a log of at most `maxBytes` of JSON text; the least recently used sessions are evicted first. */
export function memoryLog(maxBytes = DEFAULT_MAX_BYTES): EventLog {
  const sessions = new LRUCache<string, Held>({ maxSize: maxBytes, sizeCalculation: (held) => held.bytes + 1 })
  const keyOf = ({ sessionId, epoch }: LogKey): string => `${epoch}\n${sessionId}`

  return {
    append(key, entries) {
      if (entries.length === 0) return
      const name = keyOf(key)
      const held = sessions.get(name) ?? { entries: [], bytes: 0 }
      for (const entry of entries) add(held, entry)
      // Set again, because the cache computes the size of a value only once.
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
      return held.entries.slice(start, end)
    },
  }
}

/** Adds one entry. If it differs from the cached one, either may come from a rejected task: the newer one wins. */
function add(held: Held, entry: LogEntry): void {
  const { entries } = held
  const first = entries[0]?.seq ?? entry.seq
  const at = entry.seq - first
  if (entries[at]?.digest === entry.digest) return
  const before = entries[at - 1]
  if (at < 0 || at > entries.length || (before && before.digest !== entry.prev)) {
    held.entries = [entry]
    held.bytes = entry.json.length
    return
  }
  for (const dropped of entries.splice(at)) held.bytes -= dropped.json.length
  entries.push(entry)
  held.bytes += entry.json.length
}
