// The versions of a session's memory, folded from its events: all of them, and the one at a point in the past.
import type { SessionEvent } from '../events.ts'
import { type Memory, type MemoryChange, remembered } from './memory.ts'

/** One version of a session's memory, and the change that made it. */
export interface MemoryVersion extends Memory {
  /** The event that made it. */
  seq: number
  /** When, in milliseconds since 1970. */
  at: number
  /** The run in which it was made. */
  run: number
  /** The turn in which it was made. */
  turn: number
  /** What was changed. */
  change: MemoryChange
  /** The event that took the session back to before this version; absent: none has. */
  archivedSeq?: number
}

/** All versions of the memory, oldest first, from events that the caller adds one by one. */
export interface MemoryHistory {
  add(event: SessionEvent): void
  versions: readonly MemoryVersion[]
}

/** The history of a session without events. */
export function memoryHistory(): MemoryHistory {
  const versions: MemoryVersion[] = []
  let memory: Memory | null = null
  return {
    versions,
    add(event) {
      if (event.type === 'memory_changed') {
        const { version, change, seq, at, run, turn } = event
        memory = remembered(memory, version, change)
        versions.push({ ...memory, seq, at, run, turn, change })
        return
      }
      const restored = memoryAfter(memory, event)
      if (restored === memory) return
      memory = restored
      const kept = memory?.version ?? 0
      for (const one of versions) if (one.version > kept) one.archivedSeq ??= event.seq
    },
  }
}

/** The memory after the event `seq`; `events` begin with the session. */
export function memoryAt(events: Iterable<SessionEvent>, seq: number): Memory | null {
  let memory: Memory | null = null
  for (const event of events) {
    if (event.seq > seq) break
    memory = memoryAfter(memory, event)
  }
  return memory
}

function memoryAfter(memory: Memory | null, event: SessionEvent): Memory | null {
  switch (event.type) {
    case 'session_started':
      return null
    case 'memory_changed':
      return remembered(memory, event.version, event.change)
    case 'rolled_back':
    case 'recovery_started':
      return event.restored?.memory === undefined ? memory : event.restored.memory
    default:
      return memory
  }
}
