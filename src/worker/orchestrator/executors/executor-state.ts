// The orchestrator's view of its executors: their reports and their assignments.
import { LRUCache } from 'lru-cache'
import type { JobListener } from '../../../activities/needs.ts'
import type { JobOrder, ModelAnswer, JobOutcome } from '../../../calls/jobs.ts'
import type { DeathReport } from '../../../session/attempts.ts'
import type { Watermark } from '../../../session/events.ts'
import type { Channel } from '../../channel.ts'
import type { FromExecutor, ToExecutor } from '../../protocol.ts'
import type { Lease } from '../heartbeats/leases.ts'
import { steadyNow } from '../../steady-clock.ts'

/** An executor that is silent for this long counts as frozen: none of its bodies can end in that state. */
export const FROZEN_MS = 3_000
/** How many sessions in an executor's cache are remembered: as many as an executor caches. */
const VIEWS_REMEMBERED = 200

/** How an assignment ended. */
export type AssignmentEnd =
  | { end: 'done'; outcome: JobOutcome }
  /** The executor died. `isAccepted`: it had accepted the job. */
  | { end: 'died'; isAccepted: boolean; cause: DeathReport['cause']; worker: string }
  /** Withdrawn, to be assigned to another executor. */
  | { end: 'moved' }
  /** Stopped before its executor accepted it, so nothing was begun. */
  | { end: 'stopped' }

/** A job assigned to an executor. */
export interface Assignment {
  id: string
  executor: Executor
  order: JobOrder
  lease: Lease
  listener: JobListener
  isAccepted: boolean
  /** When its body was entered, and how many milliseconds it may take. */
  entered?: { at: number; timeoutMs: number }
  /** For a model call under a budget: how many tokens of the answer the executor has received. */
  tokensSoFar?: number
  /** For a model call: the answer, once the executor has received it completely. */
  answer?: ModelAnswer
  stoppedAt?: number
  ended: Promise<AssignmentEnd>
  /** Resolves `ended`. */
  settle(end: AssignmentEnd): void
}

export interface Executor {
  id: number
  pid: number
  /** `host:pid`, as shown to people. */
  worker: string
  /** The models of those agents that have a fixed one. */
  models: ReadonlyMap<string, string>
  /** Whether any of its agents has slices. */
  hasSlices: boolean
  channel: Channel<FromExecutor, ToExecutor>
  assignments: Map<string, Assignment>
  /** The sessions that it has folded, each with the last event. */
  views: LRUCache<string, Watermark>
  /** When its last message arrived, and since when its event loop has not been blocked. */
  aliveAt: number
  unblockedSince: number
  /** Whether it has left a job unacknowledged since its last message. */
  isSilent: boolean
  /** Set if it gets no new jobs, because these assignments force it to end or its code is being replaced. */
  draining?: { why: 'overdue'; guilty: Set<string> } | { why: 'retired' }
  /** Why the parent was asked to kill it. */
  killed?: { cause: DeathReport['cause']; guilty: ReadonlySet<string> }
}

/** An executor that has just sent its hello. */
export function newExecutor(
  channel: Executor['channel'],
  { executor: id, pid, worker, models, hasSlices }: Omit<FromExecutor & { type: 'hello' }, 'type' | 'holding'>,
): Executor {
  const now = steadyNow()
  const views = new LRUCache<string, Watermark>({ max: VIEWS_REMEMBERED })
  return { id, pid, worker, models, hasSlices, channel, assignments: new Map(), views, aliveAt: now, unblockedSince: now, isSilent: false }
}

export function noteMessage(executor: Executor): void {
  const now = steadyNow()
  if (now - executor.aliveAt > FROZEN_MS) executor.unblockedSince = now
  executor.aliveAt = now
  executor.isSilent = false
}

/** Whether the executor accepts new jobs. */
export function takesJobs(executor: Executor): boolean {
  return executor.draining === undefined && executor.killed === undefined
}

/** Whether the server has recently confirmed all its `external` attempts, so that no other worker is verifying one of them. */
export function isHeld({ assignments }: Executor): boolean {
  return [...assignments.values()].every((one) => !isOnce(one) || one.lease.isHeld())
}

/** Whether the assignment has a body that must never be entered twice. */
export function isOnce({ order, lease }: Pick<Assignment, 'order' | 'lease'>): boolean {
  return (order.ticket.once ?? lease.report.riding?.once) === true
}

/**
 * What an executor's death means for an assignment. If the assignment was not the reason for the kill, the death does not count against its
 * call.
 */
export function causeOfDeath({ killed }: Executor, { id }: Assignment): DeathReport['cause'] {
  if (!killed) return 'crash'
  return killed.cause === 'stuck_loop' || killed.guilty.has(id) ? killed.cause : 'neighbour'
}

/** The key of a session's view, by the chain of executions that wrote its events. */
export function viewKeyOf(sessionId: string, epoch: string): string {
  return `${sessionId}\n${epoch}`
}

/** The session whose folded events the job needs, if any. */
export function viewKey({ kind, input, ticket }: JobOrder): string | undefined {
  return kind === 'callModel' || kind === 'compact' || kind === 'resolveTool' || kind === 'endHooks'
    ? viewKeyOf(ticket.sessionId, (input as { epoch: string }).epoch)
    : undefined
}
