// One worker process under a supervisor: what is known of it from what it says, and what its death takes with it.
import type { ChildProcess } from 'node:child_process'
import type { Client } from '@temporalio/client'
import { LRUCache } from 'lru-cache'
import type { DeathReport } from '../activities/contract.ts'
import type { HoldOptions } from '../activities/needs.ts'
import { openBeatDesk, type BeatDesk } from './beat-desk.ts'
import type { CachedExecution } from './dead-worker.ts'
import type { FromWorker } from './messages.ts'
import { tell } from './process.ts'

/** A process that says nothing for as long stands still: then no attempt that it holds can end, whoever is to blame. */
export const STANDS_STILL_MS = 3_000

/**
 * How many executions a process is taken to have cached; those of which it was silent longest are forgotten. The SDK evicts in about
 * that order, says nobody of it, and keeps 600 for each GB of heap. One that is forgotten too early waits for its sticky queue's timeout.
 */
export const MOST_CACHED = 10_000

/** A process and what is known of it. */
export interface Child {
  process: ChildProcess
  pid: number
  desk: BeatDesk
  /** By workflow id, the newest first; `seq` is the last event heard of. */
  cached: LRUCache<string, CachedExecution & { seq: number }>
  /** When it was last heard of, and since when without its event loop standing still. */
  aliveAt: number
  turningSince: number
  ready: boolean
  heldSince: Map<number, number>
  stoppedAt: Map<number, number>
  /** Why the supervisor killed it: the attempts that were at fault. */
  killed?: { cause: DeathReport['cause']; guilty: Set<number> }
}

/** What is to be known of a process that was just started. */
export function newChild(process: ChildProcess, pid: number, client: Client): Child {
  const now = Date.now()
  const stoppedAt = new Map<number, number>()
  const post = (message: Parameters<typeof tell>[1]): void => tell(process, message)
  const desk = openBeatDesk(client, post, (id) => stoppedAt.set(id, Date.now()))
  const cached = new LRUCache<string, CachedExecution & { seq: number }>({ max: MOST_CACHED })
  return { process, pid, desk, cached, aliveAt: now, turningSince: now, ready: false, heldSince: new Map(), stoppedAt }
}

/** Takes note of what the process says of itself and its attempts, and beats for these. */
export function note(child: Child, message: FromWorker): void {
  const now = Date.now()
  if (now - child.aliveAt > STANDS_STILL_MS) child.turningSince = now
  child.aliveAt = now
  switch (message.type) {
    case 'ready':
      child.ready = true
      return
    case 'log':
      noteCached(child, message)
      return
    case 'hold':
      child.heldSince.set(message.id, now)
      break
    case 'release':
      child.heldSince.delete(message.id)
      child.stoppedAt.delete(message.id)
      break
    default:
      break
  }
  child.desk.receive(message)
}

/** Asked for a session's past, a process replays executions that have ended; only the newest one's next task can be waiting for it. */
function noteCached({ cached }: Child, { workflowId, executionId, entries }: FromWorker & { type: 'log' }): void {
  const known = cached.get(workflowId)
  const seq = entries.at(-1)?.seq ?? 0
  if (known && known.executionId !== executionId && seq < known.seq) return
  cached.set(workflowId, { workflowId, executionId, seq: Math.max(seq, known?.seq ?? 0) })
}

/** What the process held when it died, and why it died, for each attempt. Its beats end. */
export function takeHolds({ desk: { beater }, killed }: Child): {
  holds: HoldOptions[]
  causeOf(hold: HoldOptions): DeathReport['cause']
} {
  const held = new Map(beater.held())
  beater.stop()
  const guilty = new Set([...(killed?.guilty ?? [])].map((id) => held.get(id)))
  return {
    holds: [...held.values()],
    causeOf(hold) {
      if (!killed) return 'crash'
      return guilty.has(hold) || killed.cause === 'stuck_loop' ? killed.cause : 'neighbour'
    },
  }
}

/** Only then is it surely dead, and are its connections closed: a task must not be given to a poll of its that the server still holds. */
export function exitOf({ process }: Child): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return Promise.resolve()
  return new Promise((resolve) => process.once('exit', () => resolve()))
}
