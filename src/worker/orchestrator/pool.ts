// The executors of an orchestrator: which one gets a job, and how that ends when its executor dies, stands still or is to end.
import { randomUUID } from 'node:crypto'
import type { Logger } from '../../agent/tool.ts'
import type { JobOrder } from '../../jobs/contract.ts'
import type { Channel } from '../channel.ts'
import type { FromExecutor, Holding, KillReason, ToExecutor } from '../protocol.ts'
import { type Assignment, type AssignmentEnd, causeOfDeath, type Executor, heardOf, newExecutor, takesJobs, viewKey } from './executors.ts'
import type { EventsFor } from './events-along.ts'
import type { AnswerRequest } from './requests.ts'

/** How long a job waits for an executor before its call counts as not begun. */
const NO_EXECUTOR_MS = 1_000
/** An executor that has not acknowledged a job by then is passed over, if another one could do it. */
const ACKNOWLEDGED_WITHIN_MS = 300

/** How long after its line has closed a process may take to end. */
const HUNG_UP_MS = 2_000

/** What the pool works with. */
export interface PoolNeeds {
  eventsFor: EventsFor
  answerRequest: AnswerRequest
  /** Has the parent kill the executor; absent where executors have no process of their own. */
  kill?(executor: number, why: KillReason): void
  /** An executor that was to end holds nothing any more. */
  onDrained?(executor: number): void
  onReady?(executor: Executor): void
  /** A job of the executor begins, or it died with these. */
  onJob?(order: JobOrder, executor: Executor): void
  onDeath?(executor: Executor, held: readonly JobOrder[]): void
  logger: Logger
}

/** What an executor is given: a job on its way, whoever has it. */
export type Given = Pick<Assignment, 'order' | 'lease' | 'listener'>

/** A job in an executor's hands, and how that will end. */
export interface Placed {
  executor: Executor
  assignment: Assignment
  ended: Promise<AssignmentEnd>
}

/** The executors. */
export interface Pool {
  /** Connects an executor: its first message is a hello. `takeOver` is told of each job that it holds from an earlier orchestrator. */
  connect(channel: Channel<FromExecutor, ToExecutor>, takeOver: (executor: Executor, held: Holding) => void): void
  /** Resolves once an executor takes jobs, or after a while. */
  someone(): Promise<void>
  /** Gives the job to an executor; undefined if none takes jobs. */
  give(job: Given): Placed | undefined
  /** What an executor has held since before this orchestrator was there is assigned to it. */
  keep(executor: Executor, held: Holding, job: Given): Placed
  /** Tells the executor that has it to stop; one that has not accepted it yet does not begin it. */
  stop(placed: Placed, why: 'cancelled' | 'lost'): void
  /** The process is known to be dead. The answer: whether `onDeath` tells of it, as it does of those that were connected. */
  exited(executor: number): boolean
  /** No new jobs for it, be it connected or yet to connect; `onDrained` follows once it is connected and holds nothing. */
  retire(executor: number): void
  executors(): Iterable<Executor>
  /** The workflow's attempts may have been asked to stop: the server is asked, once it can know. */
  askForStops(workflowId: string): void
  /** Ends it as soon as nothing but these assignments is left on it: everything that can is moved, the rest finishes. */
  endFor(executor: Executor, guilty: ReadonlySet<string>): void
  /** Kills it now. */
  kill(executor: Executor, why: KillReason): void
}

/** Starts a pool without executors. */
export function startPool(needs: PoolNeeds): Pool {
  const executors = new Map<number, Executor>()
  const arrivals = new Set<() => void>()

  function connect(channel: Channel<FromExecutor, ToExecutor>, takeOver: Parameters<Pool['connect']>[1]): void {
    let executor: Executor | undefined
    channel.onMessage((message) => {
      if (message.type === 'hello') {
        executor = newExecutor(channel, message)
        executors.set(executor.id, executor)
        for (const held of message.holding) takeOver(executor, held)
        // Only now: until all that it holds is taken over, it may seem to hold nothing.
        if (retired.has(executor.id) || hasExited.has(executor.id)) endDrained(executor)
        needs.onReady?.(executor)
        for (const wake of arrivals) wake()
      } else if (executor) receive(executor, message)
    })
    channel.onClose((broken) => {
      if (!executor) return
      if (broken) needs.logger.error({ err: broken, pid: executor.pid }, 'an executor sent what cannot be decoded: it is killed')
      const gone = executor
      isClosed.add(gone)
      endIfGone(gone)
      // Its line closes a moment before its parent sees its end. A process that only lost the line would run on beside its replacement.
      setTimeout(() => executors.get(gone.id) === gone && kill(gone, 'broken_line'), broken ? 0 : HUNG_UP_MS).unref()
    })
  }

  const isClosed = new WeakSet<Executor>()
  /** Also of executors that have not said hello: theirs may still be unread. */
  const hasExited = new Set<number>()
  const retired = new Set<number>()

  /** Its death is handled once it is certain, and everything that it had said before is read. */
  function endIfGone(executor: Executor): void {
    if (!isClosed.has(executor) || !hasExited.has(executor.id) || executors.get(executor.id) !== executor) return
    executors.delete(executor.id)
    hasExited.delete(executor.id)
    retired.delete(executor.id)
    const held = [...executor.assignments.values()]
    executor.assignments.clear()
    needs.onDeath?.(
      executor,
      held.map(({ order }) => order),
    )
    for (const one of held)
      one.settle({ end: 'died', isAccepted: one.isAccepted, cause: causeOfDeath(executor, one), worker: executor.worker })
  }

  function receive(executor: Executor, message: Exclude<FromExecutor, { type: 'hello' }>): void {
    heardOf(executor)
    if (message.type === 'alive') return
    if (message.type === 'request') return void needs.answerRequest(executor, message)
    const assignment = executor.assignments.get(message.job)
    // Taken back, or stopped: nobody waits for it.
    if (!assignment)
      return needs.logger.debug({ job: message.job, pid: executor.pid }, `ignored "${message.type}" of a job that is not assigned`)
    switch (message.type) {
      case 'accepted':
        assignment.isAccepted = true
        return
      case 'entered':
        assignment.entered ??= { at: Date.now(), timeoutMs: message.timeoutMs }
        assignment.listener.entered?.(executor.worker)
        return
      case 'progress':
        assignment.lease.progress(message.value)
        assignment.listener.progress?.(message.value)
        return
      case 'done':
        return end(executor, assignment, { end: 'done', outcome: message.outcome })
    }
  }

  function end(executor: Executor, assignment: Assignment, how: AssignmentEnd): void {
    if (!executor.assignments.delete(assignment.id)) return
    assignment.settle(how)
    finishDraining(executor)
  }

  function endDrained(executor: Executor): void {
    executor.draining ??= { why: 'retired' }
    finishDraining(executor)
  }

  function finishDraining(executor: Executor): void {
    const { draining, assignments } = executor
    if (draining?.why === 'retired' && assignments.size === 0) needs.onDrained?.(executor.id)
    if (draining?.why !== 'overdue' || executor.killed) return
    if ([...assignments.keys()].every((id) => draining.guilty.has(id))) kill(executor, 'overdue', draining.guilty)
  }

  function kill(executor: Executor, why: KillReason, guilty: ReadonlySet<string> = new Set()): void {
    if (executor.killed || !needs.kill) return
    executor.killed = { cause: why === 'broken_line' ? 'crash' : why, guilty }
    needs.logger.warn({ pid: executor.pid, why }, 'an executor is killed')
    needs.kill(executor.id, why)
  }

  function endFor(executor: Executor, guilty: ReadonlySet<string>): void {
    const known = executor.draining?.why === 'overdue' ? executor.draining.guilty : new Set<string>()
    executor.draining = { why: 'overdue', guilty: new Set([...known, ...guilty]) }
    for (const one of [...executor.assignments.values()]) {
      if (!guilty.has(one.id) && one.order.ticket.once === undefined) takeBack(executor, one)
    }
    finishDraining(executor)
  }

  function takeBack(executor: Executor, assignment: Assignment): void {
    executor.channel.send({ type: 'stop', job: assignment.id, why: 'moved' })
    end(executor, assignment, { end: 'moved' })
  }

  function give(job: Given): Placed | undefined {
    const { order } = job
    const executor = pick(order)
    if (!executor) return undefined
    const placed = place(executor, { id: randomUUID(), ...job, isAccepted: false })
    const { assignment } = placed
    const along = needs.eventsFor(executor, order)
    executor.channel.send({ type: 'job', job: assignment.id, order, ...(along && { along }) })
    const look = (): void => {
      if (assignment.isAccepted || executor.assignments.get(assignment.id) !== assignment) return
      executor.isSilent = true
      if (pick(order)?.isSilent === false) return takeBack(executor, assignment)
      // Whichever speaks first gets it.
      setTimeout(look, ACKNOWLEDGED_WITHIN_MS).unref()
    }
    setTimeout(look, ACKNOWLEDGED_WITHIN_MS).unref()
    return placed
  }

  function keep(executor: Executor, { job: id, entered, outcome }: Holding, job: Given): Placed {
    const since = entered && { entered: { at: Date.now() - entered.agoMs, timeoutMs: entered.timeoutMs } }
    const placed = place(executor, { id, ...job, isAccepted: true, ...since })
    if (outcome) end(executor, placed.assignment, { end: 'done', outcome })
    return placed
  }

  function place(executor: Executor, job: Omit<Assignment, 'settle'>): Placed {
    let settle: (end: AssignmentEnd) => void = () => undefined
    const ended = new Promise<AssignmentEnd>((resolve) => {
      settle = resolve
    })
    const assignment: Assignment = { ...job, settle }
    executor.assignments.set(job.id, assignment)
    needs.onJob?.(job.order, executor)
    return { executor, assignment, ended }
  }

  function stop({ executor, assignment }: Placed, why: 'cancelled' | 'lost'): void {
    if (executor.assignments.get(assignment.id) !== assignment) return
    assignment.stoppedAt = Date.now()
    executor.channel.send({ type: 'stop', job: assignment.id, why })
    // Its executor may have taken it this very moment: then it says itself what came of it.
    setTimeout(() => assignment.isAccepted || end(executor, assignment, { end: 'stopped' }), ACKNOWLEDGED_WITHIN_MS).unref()
  }

  /** One that speaks before one that stands still, the one that has the session before others, then the least busy. */
  function pick(order: JobOrder): Executor | undefined {
    const candidates = [...executors.values()].filter(takesJobs)
    const key = viewKey(order)
    const cost = (one: Executor): number =>
      (one.isSilent ? 1e6 : 0) + one.assignments.size - (key !== undefined && one.views.has(key) ? 2 : 0)
    return candidates.toSorted((a, b) => cost(a) - cost(b))[0]
  }

  function someone(): Promise<void> {
    if ([...executors.values()].some(takesJobs)) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        arrivals.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, NO_EXECUTOR_MS)
      arrivals.add(wake)
    })
  }

  return {
    connect,
    someone,
    give,
    keep,
    stop,
    kill,
    endFor,
    executors: () => executors.values(),
    askForStops(workflowId) {
      for (const { assignments } of executors.values()) {
        for (const one of assignments.values()) if (one.order.ticket.workflowId === workflowId) askSoon(one)
      }
    },
    exited(id) {
      // One that is not known yet may have said hello all the same: that is read later.
      hasExited.add(id)
      const executor = executors.get(id)
      if (executor) endIfGone(executor)
      return executor !== undefined
    },
    retire(id) {
      retired.add(id)
      const executor = executors.get(id)
      if (executor) endDrained(executor)
    },
  }
}

/** The workflow task that asks for the stop is completed a moment after its hint; a busy server takes longer. */
const ASK_AFTER_MS = [30, 150, 600]

function askSoon(assignment: Assignment): void {
  for (const ms of ASK_AFTER_MS) {
    setTimeout(() => assignment.stoppedAt === undefined && void assignment.lease.stillMine(), ms).unref()
  }
}
