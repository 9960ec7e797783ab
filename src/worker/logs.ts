// The event log as activities read it: this process's memory first, then the supervisor's, which all processes share.
import type { EventLog } from '../activities/needs.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { LogKey } from '../activities/needs.ts'
import { type MemoryLog, memoryLog } from './memory-log.ts'

/** How long to wait for entries that another process has sent but nobody has read from the pipe yet. */
const ON_THEIR_WAY_MS = 50
/** A process's own memory is a short cut; the supervisor's is the log. */
const LOCAL_BYTES = 64 * 1024 * 1024

/** Reads from the shared log. */
export type ReadShared = (key: LogKey, from: Watermark, to: Watermark) => Promise<LogEntry[] | null>

/** The log of one worker process, before the shared one where there is one. */
export function processLog(readShared?: ReadShared): EventLog {
  const own = memoryLog(readShared ? LOCAL_BYTES : undefined)
  return {
    append: (key, entries) => own.append(key, entries),
    async read(key, from, to) {
      return own.read(key, from, to) ?? (await readShared?.(key, from, to)) ?? undefined
    },
  }
}

/** Reads from `log`, waiting a moment for what is on its way. */
export function readWhenThere(log: MemoryLog, key: LogKey, from: Watermark, to: Watermark): Promise<LogEntry[] | null> {
  const now = log.read(key, from, to)
  if (now) return Promise.resolve(now)
  return new Promise((resolve) => {
    const finish = (entries: LogEntry[] | null): void => {
      clearTimeout(timer)
      unwatch()
      resolve(entries)
    }
    const timer = setTimeout(() => finish(null), ON_THEIR_WAY_MS)
    const unwatch = log.onAppend(key, () => {
      const there = log.read(key, from, to)
      if (there) finish(there)
    })
  })
}
