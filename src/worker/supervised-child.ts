// One worker process under a supervisor: what is known of it from what it says, and what its death takes with it.
import type { ChildProcess } from 'node:child_process'
import type { Client } from '@temporalio/client'
import type { DeathReport } from '../activities/contract.ts'
import type { HoldOptions } from '../activities/needs.ts'
import { openBeatDesk, type BeatDesk } from './beat-desk.ts'
import type { CachedExecution } from './dead-worker.ts'
import type { FromWorker } from './messages.ts'
import { tell } from './process.ts'

/** A process that says nothing for as long stands still: then no attempt that it holds can end, whoever is to blame. */
export const STANDS_STILL_MS = 3_000

/** A process and what is known of it. */
export interface Child {
  process: ChildProcess
  pid: number
  desk: BeatDesk
  cached: Map<string, CachedExecution>
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
  return { process, pid, desk, cached: new Map(), aliveAt: now, turningSince: now, ready: false, heldSince: new Map(), stoppedAt }
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
    case 'log': {
      const { workflowId, executionId } = message
      child.cached.set(workflowId, { workflowId, executionId })
      return
    }
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
