// All versions of a session's plan and memory, from its events.
import type { SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import { type MemoryBlock, memoryBlocks } from '../../session/built-in-tools/memory.ts'
import type { Plan } from '../../session/built-in-tools/plan.ts'
import { type MemoryVersion, memoryVersions } from '../../session/built-in-tools/memory-history.ts'
import { type PlanVersion, planVersions } from '../../session/built-in-tools/plan-history.ts'
import type { SessionState } from '../../session/state.ts'
import { SessionNotFound } from '../errors.ts'
import { upTo } from './at-checkpoint.ts'
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

/** The session's plan at a checkpoint, from its events; null: it had none. @throws SessionNotFound, RequestRefused. */
export async function readPlan(sessionId: string, read: ReadAfter, at: number): Promise<Plan | null> {
  return fold(undefined, upTo(sessionId, await allOf(sessionId, read), at))?.plan?.current ?? null
}

/** The blocks of a session's memory, now or at a checkpoint, from its events. @throws SessionNotFound, RequestRefused. */
export async function readMemory(sessionId: string, read: ReadAfter, at?: number): Promise<MemoryBlock[]> {
  const state = fold(undefined, upTo(sessionId, await allOf(sessionId, read), at))
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
