// The executors of an orchestrator: chooses one for each job, and handles executors that die, freeze or must end.
import { randomUUID } from 'node:crypto'
import type { SharedBudgetKeeper } from '../shared-budgets.ts'
import type { GateKeeper } from '../rate-gates/gate-keeper.ts'
import type { Logger } from '../../../agent/tool.ts'
import type { JobOrder } from '../../../calls/jobs.ts'
import { defined } from '../../../session/defined.ts'
import type { SliceSnapshot } from '../../../session/slices/slices.ts'
import type { Channel } from '../../channel.ts'
import type { FromExecutor, HeldJobReport, KillReason, ToExecutor } from '../../protocol.ts'
import {
  type Assignment,
  type AssignmentEnd,
  causeOfDeath,
  type Executor,
  isOnce,
  newExecutor,
  noteMessage,
  takesJobs,
  viewKey,
} from './executor-state.ts'
import type { DeltaWriter } from '../delta-writer.ts'
import type { EventsFor } from './events-along.ts'
import type { MeasuredJobs } from '../telemetry/measure-jobs.ts'
import { startQuarantine } from './quarantine.ts'
import type { RequestAnswerer } from './requests.ts'
import { costSeen } from './failures.ts'
import { steadyNow } from '../../steady-clock.ts'

/** An executor that does not acknowledge a job within this time loses it if another one can run it. */
const ACKNOWLEDGED_WITHIN_MS = 300

/** How long a process may take to end after its channel has closed. */
const HUNG_UP_MS = 2_000

export interface PoolNeeds {
  size: number
  eventsFor: EventsFor
  answerRequest: RequestAnswerer
  /** The rate gates, which learn what providers refuse and accept. */
  gates?: Pick<GateKeeper, 'refused' | 'accepted'>
  /** Budgets that sessions share. */
  shared?: Pick<SharedBudgetKeeper, 'prepay' | 'settle' | 'ended'>
  /** Accepts snapshots of slices at checkpoints. */
  onSnapshots?(sessionId: string, snapshots: readonly SliceSnapshot[]): void
  /** Accepts the streamed output of a job's model, and the end of the job. */
  deltas?: Pick<DeltaWriter, 'add' | 'end'>
  /** Makes the parent kill the executor; absent if executors have no process of their own. */
  kill?(executor: number, why: KillReason): void
  /** An executor that must end has no more jobs. */
  onDrained?(executor: number): void
  onReady?(executor: Executor): void
  /** Measures jobs; absent if metrics are off. */
  measured?: MeasuredJobs
  /** An executor begins a job, or has died with these jobs. */
  onJob?(order: JobOrder, executor: Executor): void
  onDeath?(executor: Executor, held: readonly JobOrder[]): void
  logger: Logger
}

export type JobToAssign = Pick<Assignment, 'order' | 'lease' | 'listener'>

export interface Pool {
  /** Connects an executor, whose first message is a hello. `takeOver` is called for each job that it holds from an earlier orchestrator. */
  connect(channel: Channel<FromExecutor, ToExecutor>, takeOver: (executor: Executor, held: HeldJobReport) => void): void
  /** Resolves to true once an executor may get the job, or to false if there is none after a while or the job is stopped. */
  waitForExecutor(order: JobOrder, stopped: AbortSignal): Promise<boolean>
  /**
   * Assigns the job to an executor; undefined if none may get it now. An executor that does not acknowledge it loses it to one that
   * responds, unless it `stays`.
   */
  give(job: JobToAssign, stays?: boolean): Assignment | undefined
  /** Assigns a job to the executor that got it from an earlier orchestrator. */
  keep(executor: Executor, held: HeldJobReport, job: JobToAssign): Assignment
  /** Tells the executor to stop the job. An executor that has not accepted it yet does not begin it. */
  stop(assignment: Assignment, why: 'cancelled' | 'lost'): void
  /** Reports that the process is dead. Returns whether `onDeath` will be called, which it is for connected executors. */
  exited(executor: number): boolean
  /** Gives the executor no new jobs, even if it is not connected yet. `onDrained` is called once it is connected and has no jobs. */
  retire(executor: number): void
  executors(): Iterable<Executor>
  /**
   * Ends the executor as soon as only these assignments are left. Its other jobs move to another executor if they are repeatable, and
   * otherwise finish first.
   */
  endFor(executor: Executor, guilty: ReadonlySet<string>): void
  kill(executor: Executor, why: KillReason): void
}

/** Whether the job's own code has run: a tool's job may end without entering its body. */
const hasRun = ({ order: { kind }, entered }: Assignment): boolean =>
  (kind !== 'executeTool' && kind !== 'verifyTool') || entered !== undefined

export function startPool(needs: PoolNeeds): Pool {
  const executors = new Map<number, Executor>()
  const quarantine = startQuarantine({ size: needs.size, takers: () => [...executors.values()].filter(takesJobs) })

  function connect(channel: Channel<FromExecutor, ToExecutor>, takeOver: Parameters<Pool['connect']>[1]): void {
    let executor: Executor | undefined
    channel.onMessage((message) => {
      if (message.type === 'hello') {
        executor = newExecutor(channel, message)
        executors.set(executor.id, executor)
        for (const held of message.holding) takeOver(executor, held)
        // Not earlier, because the executor may seem to have no jobs until all of them are adopted.
        if (retired.has(executor.id) || hasExited.has(executor.id)) endDrained(executor)
        quarantine.connected(executor)
        needs.onReady?.(executor)
      } else if (executor) receive(executor, message)
    })
    channel.onClose((broken) => {
      if (!executor) return
      if (broken) needs.logger.error({ err: broken, pid: executor.pid }, 'an executor sent a message that cannot be decoded: pawl kills it')
      const gone = executor
      isClosed.add(gone)
      endIfGone(gone)
      // Its channel closes a moment before the parent sees its exit. A process that only lost its channel would run alongside its replacement.
      setTimeout(() => executors.get(gone.id) === gone && kill(gone, 'broken_line'), broken ? 0 : HUNG_UP_MS).unref()
    })
  }

  const isClosed = new WeakSet<Executor>()
  /** Includes executors without a hello, because their hello may still be unread. */
  const hasExited = new Set<number>()
  const retired = new Set<number>()

  /** Handles a death once it is certain and all earlier messages of the executor are read. */
  function endIfGone(executor: Executor): void {
    if (!isClosed.has(executor) || !hasExited.has(executor.id) || executors.get(executor.id) !== executor) return
    executors.delete(executor.id)
    hasExited.delete(executor.id)
    retired.delete(executor.id)
    const held = [...executor.assignments.values()]
    executor.assignments.clear()
    const mayBeGuilty = held.filter((one) => one.isAccepted && causeOfDeath(executor, one) !== 'neighbour')
    quarantine.died(
      executor,
      mayBeGuilty.map(({ order }) => order),
    )
    needs.onDeath?.(
      executor,
      held.map(({ order }) => order),
    )
    for (const { id } of held) needs.deltas?.end(id)
    needs.measured?.died(executor, held)
    for (const one of held) {
      releaseShares(one)
      const how = { end: 'died', isAccepted: one.isAccepted, cause: causeOfDeath(executor, one), worker: executor.worker } as const
      needs.measured?.ended(one, how)
      one.settle(how)
    }
  }

  function receive(executor: Executor, message: Exclude<FromExecutor, { type: 'hello' }>): void {
    noteMessage(executor)
    if (message.type === 'alive') return
    if (message.type === 'request') return void needs.answerRequest(executor, message)
    if (message.type === 'refused') return needs.gates?.refused(message.key, message.forMs, message.isHeader)
    if (message.type === 'share_settled') return needs.shared?.settle(message.token, message.usd)
    if (message.type === 'accepted_at_gate') return needs.gates?.accepted(message.key)
    if (message.type === 'snapshots') return needs.onSnapshots?.(message.sessionId, message.snapshots)
    if (message.type === 'deltas') return takeDeltas(executor, message.parts)
    const assignment = executor.assignments.get(message.job)
    // The job was withdrawn or stopped, so nothing waits for it.
    if (!assignment)
      return needs.logger.debug({ job: message.job, pid: executor.pid }, `ignored "${message.type}" for a job that is not assigned`)
    switch (message.type) {
      case 'accepted':
        assignment.isAccepted = true
        needs.measured?.accepted(assignment.order)
        return
      case 'entered':
        assignment.entered ??= { at: steadyNow(), timeoutMs: message.timeoutMs }
        assignment.listener.entered?.(executor.worker)
        return
      case 'progress':
        assignment.lease.progress(message.value)
        assignment.listener.progress?.(message.value)
        return
      case 'asked':
        return needs.measured?.asked(assignment.order, message.timed)
      case 'reserved':
        delete assignment.tokensSoFar
        assignment.lease.noteReservation(message.reservation)
        return
      case 'tokens_so_far':
        assignment.tokensSoFar = message.tokens
        return
      case 'answered':
        assignment.answer = message.answer
        return
      case 'done':
        return end(executor, assignment, { end: 'done', outcome: message.outcome })
    }
  }

  function takeDeltas({ assignments }: Executor, parts: (FromExecutor & { type: 'deltas' })['parts']): void {
    for (const { job, part } of parts) {
      const assignment = assignments.get(job)
      if (assignment) needs.deltas?.add(job, assignment.order, part)
    }
  }

  function end(executor: Executor, assignment: Assignment, how: AssignmentEnd): void {
    if (!executor.assignments.delete(assignment.id)) return
    needs.deltas?.end(assignment.id)
    needs.measured?.ended(assignment, how)
    releaseShares(assignment)
    assignment.settle(how)
    quarantine.ended(assignment.order, how.end === 'done' && hasRun(assignment))
    finishDraining(executor)
  }

  /** What a call in progress may have cost is counted until its cost is stored. */
  function releaseShares(assignment: Assignment): void {
    const { id, order, lease } = assignment
    needs.shared?.ended(id, costSeen(order, lease.report, assignment)?.usd ?? 0)
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
    needs.logger.warn({ pid: executor.pid, why }, 'pawl kills an executor')
    needs.kill(executor.id, why)
  }

  function endFor(executor: Executor, guilty: ReadonlySet<string>): void {
    const known = executor.draining?.why === 'overdue' ? executor.draining.guilty : new Set<string>()
    executor.draining = { why: 'overdue', guilty: new Set([...known, ...guilty]) }
    for (const one of [...executor.assignments.values()]) {
      if (!guilty.has(one.id) && !isOnce(one)) takeBack(executor, one)
    }
    finishDraining(executor)
  }

  function takeBack(executor: Executor, assignment: Assignment): void {
    executor.channel.send({ type: 'stop', job: assignment.id, why: 'moved' })
    end(executor, assignment, { end: 'moved' })
  }

  function give(job: JobToAssign, stays = false): Assignment | undefined {
    const { order } = job
    const executor = pick(order)
    if (!executor) return undefined
    const id = randomUUID()
    const assignment = assign({ id, executor, ...job, isAccepted: false })
    // An answer that is there already costs nothing more.
    const share =
      order.kind === 'callModel' && !order.answer ? needs.shared?.prepay({ job: id, sessionId: order.ticket.sessionId }) : undefined
    const along = needs.eventsFor(executor, order)
    const heldBack = order.kind === 'callModel' ? quarantine.heldBack(order) : []
    executor.channel.send({ type: 'job', job: id, order, ...defined({ along, share }), ...(heldBack.length > 0 && { heldBack }) })
    const look = (): void => {
      if (assignment.isAccepted || executor.assignments.get(assignment.id) !== assignment) return
      executor.isSilent = true
      if (!stays && pick(order)?.isSilent === false) return takeBack(executor, assignment)
      // The first executor that responds gets the job.
      setTimeout(look, ACKNOWLEDGED_WITHIN_MS).unref()
    }
    setTimeout(look, ACKNOWLEDGED_WITHIN_MS).unref()
    return assignment
  }

  function keep(
    executor: Executor,
    { job: id, entered, tokensSoFar, streamed, answer, outcome }: HeldJobReport,
    job: JobToAssign,
  ): Assignment {
    const since = entered && { entered: { at: steadyNow() - entered.agoMs, timeoutMs: entered.timeoutMs } }
    const assignment = assign({ id, executor, ...job, isAccepted: true, ...since, ...defined({ tokensSoFar, answer }) })
    if (streamed) needs.deltas?.add(id, job.order, streamed)
    if (outcome) end(executor, assignment, { end: 'done', outcome })
    return assignment
  }

  function assign(job: Omit<Assignment, 'settle' | 'ended'>): Assignment {
    const { executor, order, lease } = job
    let settle: (end: AssignmentEnd) => void = () => undefined
    const ended = new Promise<AssignmentEnd>((resolve) => {
      settle = resolve
    })
    const assignment: Assignment = { ...job, ended, settle }
    lease.given(executor.worker)
    executor.assignments.set(job.id, assignment)
    quarantine.assigned(order, executor)
    needs.onJob?.(order, executor)
    return assignment
  }

  function stop(assignment: Assignment, why: 'cancelled' | 'lost'): void {
    const { executor } = assignment
    if (executor.assignments.get(assignment.id) !== assignment) return
    assignment.stoppedAt = steadyNow()
    executor.channel.send({ type: 'stop', job: assignment.id, why })
    // The executor may be accepting the job at this moment. In that case, it reports the outcome itself.
    setTimeout(() => assignment.isAccepted || end(executor, assignment, { end: 'stopped' }), ACKNOWLEDGED_WITHIN_MS).unref()
  }

  /** Prefers responsive executors, then the one that has the session, then the least busy. */
  function pick(order: JobOrder): Executor | undefined {
    const key = viewKey(order)
    const cost = (one: Executor): number =>
      (one.isSilent ? 1e6 : 0) + one.assignments.size - (key !== undefined && one.views.has(key) ? 2 : 0)
    return quarantine.allowed(order).toSorted((a, b) => cost(a) - cost(b))[0]
  }

  return {
    connect,
    waitForExecutor: quarantine.turn,
    give,
    keep,
    stop,
    kill,
    endFor,
    executors: () => executors.values(),
    exited(id) {
      // An unknown executor may have sent a hello that has not been read yet.
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
