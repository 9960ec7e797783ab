// All versions of a session's plan and memory, from its events.
import type { SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import { type MemoryBlock, memoryBlocks } from '../../session/built-in-tools/memory.ts'
import { type MemoryVersion, memoryVersions } from '../../session/built-in-tools/memory-history.ts'
import { type PlanVersion, planVersions } from '../../session/built-in-tools/plan-history.ts'
import type { SessionState } from '../../session/state.ts'
import { SessionNotFound } from '../errors.ts'
import { readAll } from './past.ts'

/** Reads the session's events above a `seq`. */
type ReadAfter = (after: number) => Promise<SessionEvent[]>

/** All versions of a session's plan, oldest first. @throws SessionNotFound. */
export async function readPlans(sessionId: string, read: ReadAfter): Promise<PlanVersion[]> {
  return planVersions(await allOf(sessionId, read))
}

/** All versions of a session's memory, oldest first. @throws SessionNotFound. */
export async function readMemoryVersions(sessionId: string, read: ReadAfter): Promise<MemoryVersion[]> {
  return memoryVersions(await allOf(sessionId, read))
}

/** The blocks of a session's memory, from all its events. @throws SessionNotFound. */
export async function readMemory(sessionId: string, read: ReadAfter): Promise<MemoryBlock[]> {
  const state = fold(undefined, await allOf(sessionId, read))
  return state ? memoryOf(state) : []
}

/** The blocks of a session's memory. */
export function memoryOf({ memory, facts }: Pick<SessionState, 'memory' | 'facts'>): MemoryBlock[] {
  return memoryBlocks(memory?.current, facts?.memory)
}

async function allOf(sessionId: string, read: ReadAfter): Promise<SessionEvent[]> {
  const events = await readAll(read)
  if (events.length === 0) throw new SessionNotFound(sessionId)
  return events
}
