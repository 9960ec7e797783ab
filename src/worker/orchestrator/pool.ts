// The executors of an orchestrator: which one gets a job, and what becomes of the job when its executor dies, stands still or is to end.
import { randomUUID } from 'node:crypto'
import type { JobListener } from '../../activities/needs.ts'
import type { Logger } from '../../agent/tool.ts'
import type { JobOrder } from '../../jobs/contract.ts'
import type { Channel } from '../channel.ts'
import type { FromExecutor, Holding, KillReason, ToExecutor } from '../protocol.ts'
import { failureOf, givenUpMoving, stoppedUnbegun, workerDied } from './failures.ts'
import { type Assignment, type AssignmentEnd, causeOfDeath, type Executor, heardOf, newExecutor, takesJobs } from './executors.ts'
import type { EventsFor } from './events-along.ts'
import type { Lease, Leases } from './leases.ts'
import type { AnswerRequest } from './requests.ts'

/** How long a job waits for an executor before its call counts as not begun. */
const NO_EXECUTOR_MS = 1_000
/** An executor that has not acknowledged a job by then is passed over, if another one could do it. */
const ACKNOWLEDGED_WITHIN_MS = 300
/** Times that one job is given to executors that die, or stand still, before they accept it. */
const MOST_PLACINGS = 5

/** How long after its line has closed a process may take to end. */
const HUNG_UP_MS = 2_000

/** What the pool works with. */
export interface PoolNeeds {
  leases: Leases
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

/** The executors. */
export interface Pool {
  /** Connects an executor: its first message is a hello. `adopt` is told of what it holds from an earlier orchestrator. */
  connect(
    channel: Channel<FromExecutor, ToExecutor>,
    adopt: (held: Holding, running: Promise<{ result: unknown } | undefined>) => void,
  ): void
  /** Has a job carried out; undefined if no executor could take it on. Rejects with what the activity is to fail with. */
  dispatch(order: JobOrder, listener?: JobListener): Promise<{ result: unknown } | undefined>
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

/** A job on its way: who has it now, and what is known of it whoever has it. */
interface Placing {
  order: JobOrder
  lease: Lease
  listener: JobListener
  at?: { executor: Executor; assignment: Assignment }
  /** Told once, perhaps while no executor had it. */
  isStopped: boolean
  /** Whether an executor had accepted it before it was taken back. */
  mayHaveBegun: boolean
}

/** Starts a pool without executors. */
export function startPool(needs: PoolNeeds): Pool {
  const executors = new Map<number, Executor>()
  const arrivals = new Set<() => void>()

  function connect(channel: Channel<FromExecutor, ToExecutor>, adopt: Parameters<Pool['connect']>[1]): void {
    let executor: Executor | undefined
    channel.onMessage((message) => {
      if (message.type === 'hello') {
        executor = newExecutor(channel, message)
        executors.set(executor.id, executor)
        for (const held of message.holding) adopt(held, adopted(executor, held))
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

  function give(executor: Executor, assignment: Assignment): void {
    const { id, order } = assignment
    executor.assignments.set(id, assignment)
    const along = needs.eventsFor(executor, order)
    needs.onJob?.(order, executor)
    executor.channel.send({ type: 'job', job: id, order, ...(along && { along }) })
    const look = (): void => {
      if (assignment.isAccepted || executor.assignments.get(id) !== assignment) return
      executor.isSilent = true
      if (pick(order)?.isSilent === false) return takeBack(executor, assignment)
      // Whichever speaks first gets it.
      setTimeout(look, ACKNOWLEDGED_WITHIN_MS).unref()
    }
    setTimeout(look, ACKNOWLEDGED_WITHIN_MS).unref()
  }

  /** One that speaks before one that stands still, the one that has the session before others, then the least busy. */
  function pick(order: JobOrder): Executor | undefined {
    const candidates = [...executors.values()].filter(takesJobs)
    const key = viewKey(order)
    const cost = (one: Executor): number =>
      (one.isSilent ? 1e6 : 0) + one.assignments.size - (key !== undefined && one.views.has(key) ? 2 : 0)
    return candidates.toSorted((a, b) => cost(a) - cost(b))[0]
  }

  /** Resolves when an executor has come, or after a while. */
  function arrival(): Promise<void> {
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

  /** An assignment of the job, and how it will end. */
  function assign(
    { id, order, lease, listener }: Pick<Assignment, 'id' | 'order' | 'lease' | 'listener'>,
    more: Partial<Pick<Assignment, 'isAccepted' | 'entered'>> = {},
  ): { assignment: Assignment; ended: Promise<AssignmentEnd> } {
    let settle: (end: AssignmentEnd) => void = () => undefined
    const ended = new Promise<AssignmentEnd>((resolve) => {
      settle = resolve
    })
    return { assignment: { id, order, lease, listener, isAccepted: false, ...more, settle }, ended }
  }

  /** A job that is to be placed; a stop goes to whichever executor has it. */
  function placingOf(order: JobOrder, listener: JobListener = {}): Placing {
    const lease = needs.leases.take(order.ticket, (why) => {
      placing.isStopped = true
      const { at } = placing
      if (!at || at.executor.assignments.get(at.assignment.id) !== at.assignment) return
      at.assignment.stoppedAt = Date.now()
      at.executor.channel.send({ type: 'stop', job: at.assignment.id, why })
      // Its executor may have taken it this very moment: then it says itself what came of it.
      setTimeout(() => at.assignment.isAccepted || end(at.executor, at.assignment, { end: 'stopped' }), ACKNOWLEDGED_WITHIN_MS).unref()
    })
    const placing: Placing = { order, lease, listener, isStopped: false, mayHaveBegun: false }
    return placing
  }

  async function dispatch(order: JobOrder, listener?: JobListener): Promise<{ result: unknown } | undefined> {
    const placing = placingOf(order, listener)
    try {
      // From its second attempt on any call begins once the server has heard of the attempt: one that was handed to a process that is
      // frozen or gone says nothing against the call. If the server cannot be reached, it begins all the same.
      if (order.attempt.number > 1) await placing.lease.announce().catch(() => undefined)
      return await place(placing)
    } finally {
      placing.lease.release()
    }
  }

  async function place(placing: Placing): Promise<{ result: unknown } | undefined> {
    const { order, lease, listener } = placing
    for (let placings = 0; placings < MOST_PLACINGS; placings++) {
      // Picked and given in one go: the next job must see that this one is there.
      if (!pick(order)) await arrival()
      const executor = pick(order)
      if (placing.isStopped) throw placing.mayHaveBegun ? workerDied(order, lease.report, 'neighbour') : stoppedUnbegun()
      if (!executor) return undefined
      const { assignment, ended } = assign({ id: randomUUID(), order, lease, listener })
      placing.at = { executor, assignment }
      give(executor, assignment)
      const result = await resultOf(await ended, placing)
      if (result !== 'again') return result
    }
    throw givenUpMoving(order)
  }

  /** What the activity answers, or `again` if another executor is to have the job. */
  async function resultOf(how: AssignmentEnd, placing: Placing): Promise<{ result: unknown } | 'again'> {
    const { order, lease } = placing
    placing.mayHaveBegun ||= placing.at?.assignment.isAccepted === true
    switch (how.end) {
      case 'done':
        if (how.outcome.kind === 'answered') return { result: how.outcome.result }
        throw await failureOf(how.outcome, lease)
      case 'moved':
        return 'again'
      case 'died':
        if (!how.isAccepted) return 'again'
        throw workerDied(order, { ...lease.report, worker: how.worker }, how.cause)
      case 'stopped':
        throw stoppedUnbegun()
    }
  }

  /** Takes over a job that an executor has held since before this orchestrator was there. */
  async function adopted(executor: Executor, held: Holding): Promise<{ result: unknown } | undefined> {
    const { job, order, begun, entered, progress, outcome } = held
    const ticket = { ...order.ticket, report: { ...order.ticket.report, begun, ...(progress !== undefined && { progress }) } }
    const known: JobOrder = { ...order, ticket }
    const placing = placingOf(known)
    const { lease, listener } = placing
    try {
      const { assignment, ended } = assign(
        { id: job, order: known, lease, listener },
        { isAccepted: true, ...(entered && { entered: { at: Date.now() - entered.agoMs, timeoutMs: entered.timeoutMs } }) },
      )
      placing.at = { executor, assignment }
      executor.assignments.set(job, assignment)
      needs.onJob?.(known, executor)
      if (outcome) end(executor, assignment, { end: 'done', outcome })
      const result = await resultOf(await ended, placing)
      return result === 'again' ? await place(placing) : result
    } finally {
      lease.release()
    }
  }

  return {
    connect,
    dispatch,
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

/** The session whose folded events serve the job, if any do. */
export function viewKey({ kind, input, ticket }: JobOrder): string | undefined {
  return kind === 'callModel' || kind === 'resolveTool' ? `${ticket.sessionId}\n${(input as { epoch: string }).epoch}` : undefined
}
