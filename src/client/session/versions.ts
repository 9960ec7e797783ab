// A session's plan and memory: all versions, from its events.
import { type MemoryBlock, memoryBlocks } from '../../session/built-in-tools/memory.ts'
import { MEMORY, type MemoryVersion, PLAN, type PlanVersion } from '../../session/built-in-tools/kept.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { SessionState } from '../../session/state.ts'
import { SessionNotFoundError } from '../errors.ts'
import { eventsOf, type ReadPage } from './past.ts'

/** All versions of a session's plan, oldest first. @throws SessionNotFoundError. */
export function readPlans(sessionId: string, read: ReadPage): Promise<PlanVersion[]> {
  return versionsIn(PLAN.history(), sessionId, read)
}

/** All versions of a session's memory, oldest first. @throws SessionNotFoundError. */
export function readMemoryVersions(sessionId: string, read: ReadPage): Promise<MemoryVersion[]> {
  return versionsIn(MEMORY.history(), sessionId, read)
}

/** The blocks of a session's memory. */
export function memoryOf({ memory, facts }: Pick<SessionState, 'memory' | 'facts'>): MemoryBlock[] {
  return memoryBlocks(memory?.current, facts?.memory)
}

interface VersionHistory<V> {
  add(event: SessionEvent): void
  versions: readonly V[]
}

async function versionsIn<V>(history: VersionHistory<V>, sessionId: string, read: ReadPage): Promise<V[]> {
  let isEmpty = true
  for await (const event of eventsOf(read)) {
    isEmpty = false
    history.add(event)
  }
  if (isEmpty) throw new SessionNotFoundError(sessionId)
  return [...history.versions]
}
