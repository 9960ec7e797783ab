// The fold of the plan and the memory: their changes, and what a rollback or a recovery restores.
import type { EventOf } from '../events.ts'
import { MEMORY, PLAN } from '../built-in-tools/kept.ts'
import { MEMORY_BYTES } from '../built-in-tools/memory.ts'
import { PLAN_BYTES } from '../built-in-tools/plan.ts'
import { keepTakenWithinBounds, roomBeside } from './queue.ts'
import type { SessionState } from '../state.ts'

/** Sets the plan's new version. */
export function changePlan(state: SessionState, { version, change, turn }: EventOf<'plan_changed'>): void {
  state.plan = PLAN.afterChange(state.plan, version, change)
  if (state.current) state.current.planTurn = turn
  keepTakenWithinBounds(state)
}

/** Sets the memory's new version. */
export function changeMemory(state: SessionState, { version, change, turn }: EventOf<'memory_changed'>): void {
  state.memory = MEMORY.afterChange(state.memory, version, change)
  if (state.current) state.current.memoryTurn = turn
  keepTakenWithinBounds(state)
}

/** Restores the plan and the memory that an event carries when it takes the session back. */
export function restore(state: SessionState, { restored }: EventOf<'rolled_back' | 'recovery_started'>): void {
  if (restored?.plan !== undefined) state.plan = PLAN.afterRollback(state.plan, restored.plan)
  if (restored?.memory !== undefined) state.memory = MEMORY.afterRollback(state.memory, restored.memory)
}

/** Bytes of JSON that the plan may have. */
export function roomForPlan(state: SessionState): number {
  return Math.min(PLAN_BYTES, roomBeside(state) - (state.memory?.largest ?? 0))
}

/** Bytes of JSON that the memory may have. */
export function roomForMemory(state: SessionState): number {
  return Math.min(MEMORY_BYTES, roomBeside(state) - (state.plan?.largest ?? 0))
}
