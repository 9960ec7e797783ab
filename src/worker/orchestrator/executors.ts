// Executors as their orchestrator sees them: what they say of themselves, and what they hold.
import { LRUCache } from 'lru-cache'
import type { JobListener } from '../../activities/needs.ts'
import type { JobOrder, Outcome } from '../../jobs/contract.ts'
import type { DeathReport } from '../../session/attempts.ts'
import type { Watermark } from '../../session/events.ts'
import type { Channel } from '../channel.ts'
import type { FromExecutor, ToExecutor } from '../protocol.ts'
import type { Lease } from './leases.ts'

/** An executor that says nothing for as long stands still: then no body that it runs can end, whichever is to blame. */
export const STANDS_STILL_MS = 3_000
/** Sessions whose place in an executor's cache is remembered; it keeps as many. */
const VIEWS_REMEMBERED = 200

/** How an assignment ended. */
export type AssignmentEnd =
  | { end: 'done'; outcome: Outcome }
  /** Its executor died. `accepted`: it had said that it has the job. */
  | { end: 'died'; isAccepted: boolean; cause: DeathReport['cause']; worker: string }
  /** Taken back, to be given to another executor. */
  | { end: 'moved' }
  /** Told to stop, and never accepted by its executor: nothing was begun. */
  | { end: 'stopped' }

/** A job that an executor was given. */
export interface Assignment {
  id: string
  order: JobOrder
  lease: Lease
  listener: JobListener
  isAccepted: boolean
  /** When its body was entered, and how many milliseconds it may take. */
  entered?: { at: number; timeoutMs: number }
  stoppedAt?: number
  settle(end: AssignmentEnd): void
}

/** An executor and what is known of it. */
export interface Executor {
  id: number
  pid: number
  /** `host:pid`, for people. */
  worker: string
  channel: Channel<FromExecutor, ToExecutor>
  assignments: Map<string, Assignment>
  /** Up to where it has folded which sessions. */
  views: LRUCache<string, Watermark>
  /** When it was last heard of, and since when without its event loop standing still. */
  aliveAt: number
  turningSince: number
  /** Whether it left a job unacknowledged since it last spoke. */
  isSilent: boolean
  /** Whether it gets no new jobs: it is to end, because of these assignments or because its code is replaced. */
  draining?: { why: 'overdue'; guilty: Set<string> } | { why: 'retired' }
  /** Why the parent was asked to kill it. */
  killed?: { cause: DeathReport['cause']; guilty: ReadonlySet<string> }
}

/** An executor that has just said hello. */
export function newExecutor(
  channel: Executor['channel'],
  { executor: id, pid, worker }: Pick<FromExecutor & { type: 'hello' }, 'executor' | 'pid' | 'worker'>,
): Executor {
  const now = Date.now()
  const views = new LRUCache<string, Watermark>({ max: VIEWS_REMEMBERED })
  return { id, pid, worker, channel, assignments: new Map(), views, aliveAt: now, turningSince: now, isSilent: false }
}

/** Takes note that it was heard of. */
export function heardOf(executor: Executor): void {
  const now = Date.now()
  if (now - executor.aliveAt > STANDS_STILL_MS) executor.turningSince = now
  executor.aliveAt = now
  executor.isSilent = false
}

/** Whether it may be given jobs. */
export function takesJobs(executor: Executor): boolean {
  return executor.draining === undefined && executor.killed === undefined
}

/** What its death means for an assignment: one that was not the reason for a kill does not count against its call. */
export function causeOfDeath({ killed }: Executor, { id }: Assignment): DeathReport['cause'] {
  if (!killed) return 'crash'
  return killed.cause === 'stuck_loop' || killed.guilty.has(id) ? killed.cause : 'neighbour'
}

/** The session whose folded events serve the job, if any do. */
export function viewKey({ kind, input, ticket }: JobOrder): string | undefined {
  return kind === 'callModel' || kind === 'resolveTool' ? `${ticket.sessionId}\n${(input as { epoch: string }).epoch}` : undefined
}
