// A step of a run that calls a model. pawl reschedules it until it has an answer, fails permanently or is stopped.
import { condition, sleep } from '@temporalio/workflow'
import type { AskModelInput, NoAnswer, StepReport, WaitCause } from '../../calls/activities.ts'
import { traceOf } from '../../session/agents/traces.ts'
import { MAX_DEATHS } from '../../session/attempts.ts'
import { timerMs } from '../../session/backoff.ts'
import { ranMs } from '../../session/pause.ts'
import type { BudgetRaise } from '../../session/spending/spend.ts'
import type { RunState, SessionState } from '../../session/state.ts'
import { answerIn, interruptedWhile, type LostActivity, whyLost } from '../lost-activity.ts'
import { modelCalls, summaryOf } from '../scheduling.ts'
import type { Attempts } from '../calls/attempts.ts'
import { flushBeforeBackoff } from '../flushing.ts'
import { eventsOf } from '../journal.ts'
import type { Failure, Session } from '../session-parts.ts'
import type { ServingWatch } from '../awaiting-worker.ts'

/** What ends the step without an answer. */
export type UnansweredEnd =
  /** `by`: the hook that ended the run, if one did. */
  | { end: 'stopped'; by?: { hook: string; reason: string } }
  /** Part of the spent amount is an assumed cost, and too little of the budget is left. */
  | { end: 'held_up'; reason: string; raise: BudgetRaise[] | undefined }
  | ({ end: 'failed' } & Failure)

type Result = StepReport & { kind: string }

/** Results whose events carry their cost. */
const WITH_COST: readonly string[] = ['completed', 'compacted']

/** One kind of step. */
export interface RetriedStep<R extends Result, E> {
  /** The step's name in messages. */
  what: string
  attempts: Attempts
  schedule(activities: ReturnType<typeof modelCalls>, input: AskModelInput): Promise<R>
  /** Records what all results have in common. */
  note?(result: R): void
  /** The result of a step that was lost after the model had answered; undefined if the model is to be asked again. */
  lost?(lost: LostActivity): R | undefined
  /** Handles an answer; returns undefined to schedule the step again. */
  answered(result: Exclude<R, NoAnswer>): E | undefined | Promise<E | undefined>
}

const MAX_STALE = 3

/** Carries out the step of `run`'s turn. */
export async function askUntilAnswered<R extends Result, E>(
  session: Session,
  run: RunState,
  { what, attempts, schedule, note, lost, answered }: RetriedStep<R, E>,
): Promise<E | UnansweredEnd> {
  const { journal, serving, alarms, waits } = session
  const { agent } = journal.state
  const { run: number, turn } = run
  let mode: { how: 'first' | 'again' } | { how: 'until_served'; waitsFor: WaitCause } = { how: 'first' }
  let stale = 0
  for (;;) {
    // An attempt may have reported the agent's configuration, which includes the run's limits.
    alarms.follow()
    const input = inputOf(session, run, attempts, mode.how === 'until_served' ? mode.waitsFor : undefined)
    let result: R
    try {
      const asked = schedule(modelCalls(mode.how, session.heartbeatTimeoutMs, summaryOf(`turn ${turn}`, attempts.used)), input)
      result = answerIn(mode.how === 'until_served' ? await servedInTime(asked, serving, agent) : await asked)
    } catch (error) {
      waits.endOfModel()
      const why = whyLost(error)
      const known = lost?.(why)
      if (!known) {
        const end = endOfLost(why, what, attempts)
        if (end === 'not_begun') mode = { how: 'until_served', waitsFor: 'agent_not_served' }
        else if (end) return end
        continue
      }
      result = known
    }
    if ('isConfirmed' in result) journal.isUnconfirmed = false
    if (result.facts) journal.append({ type: 'agent_declared', ...result.facts })
    attempts.failed(result.failed)
    for (const { budget, limit, spent } of result.warnings ?? [])
      journal.append({ type: 'budget_warning', scope: 'shared', unit: 'usd', budget, run: number, limit, spent })
    note?.(result)
    if (result.spent && !WITH_COST.includes(result.kind)) {
      journal.append({ type: 'spent', run: number, turn, attempt: attempts.used.attempts + 1, ...result.spent })
    }
    // The compiler cannot narrow the kinds of a generic result.
    const none = result as { kind: string } as NoAnswer | { kind: 'an answer' }
    if (none.kind !== 'gated') waits.endOfModel()
    switch (none.kind) {
      case 'failed':
        serving.served()
        return failureOf(none)
      case 'again':
        // Retried here, not by Temporal, so that the failed attempt is recorded now and a stop can end the backoff.
        serving.served()
        mode = { how: 'again' }
        alarms.follow()
        if (none.fallback) {
          attempts.fallBack(none.fallback)
          continue
        }
        flushBeforeBackoff(session.flushing, none.afterMs)
        if (await interruptedWhile(sleep(timerMs(none.afterMs)))) return { end: 'stopped' }
        continue
      case 'gated':
        serving.served()
        mode = { how: 'again' }
        alarms.follow()
        waits.ofModel(none)
        if (await interruptedWhile(sleep(timerMs(none.afterMs)))) {
          waits.endOfModel()
          return { end: 'stopped' }
        }
        continue
      case 'foreign_past':
        session.isForeign = true
        // The workflow is about to end this step.
        await condition(() => false)
        return { end: 'stopped' }
      case 'not_served':
        mode = { how: 'until_served', waitsFor: 'agent_not_served' }
        continue
      case 'archive_unavailable':
      case 'budget_exhausted':
        serving.holdsUp(none.kind, none.reason)
        mode = { how: 'until_served', waitsFor: none.kind }
        continue
      case 'stale_watermark':
        if (++stale < MAX_STALE) continue
        return {
          end: 'failed',
          code: 'stale_watermark',
          reason:
            'The events of the session could not be read back, because the log of its execution differs. Recover the run, or send a message.',
        }
      case 'interrupted':
        return { end: 'stopped' }
      default: {
        serving.served()
        const next = answered(result as Exclude<R, NoAnswer>)
        // Awaits only real promises, because another promise would change the order of a task's commands.
        const end = next instanceof Promise ? await next : next
        if (end !== undefined) return end
        mode = { how: 'first' }
      }
    }
  }
}

/** Counts an attempt without a result. Returns why the step ends, or that no worker has begun it; undefined: another attempt follows. */
function endOfLost(lost: LostActivity, what: string, attempts: Attempts): UnansweredEnd | 'not_begun' | undefined {
  if (lost.how === 'cancelled') return { end: 'stopped' }
  if (lost.how === 'not_begun') return 'not_begun'
  attempts.lost(lost, { maxFailures: MAX_DEATHS - 1 })
  const givenUp = attempts.givenUp()
  if (givenUp !== undefined) return { end: 'failed', code: 'worker_died', reason: `The ${what} ${givenUp}.` }
  if (attempts.used.failures >= MAX_DEATHS) return { end: 'failed', code: 'model_call_failed', reason: lost.message, transient: true }
  return undefined
}

function inputOf({ journal }: Session, run: RunState, { used }: Attempts, waitsFor: WaitCause | undefined): AskModelInput {
  const { state } = journal
  const input: AskModelInput = { agent: state.agent, ...eventsOf(journal), run: run.run, turn: run.turn, ...timesOf(state, run) }
  if (run.stretch !== undefined) input.stretch = run.stretch
  const trace = traceOf(run)
  if (trace) input.trace = trace
  if (used.attempts > 0 || used.unexpected !== undefined) input.prior = used
  if (waitsFor) Object.assign(input, { untilServed: true, waitsFor } satisfies Partial<AskModelInput>)
  if (state.facts) input.known = state.facts.digest
  return input
}

function failureOf({ assumed, code, reason, transient, unexpected, raise }: NoAnswer & { kind: 'failed' }): UnansweredEnd {
  return assumed ? { end: 'held_up', reason, raise } : { end: 'failed', code, reason, transient, unexpected, raise }
}

/** The deadlines as durations, because a worker's clock may differ from the server's. */
function timesOf(state: SessionState, run: RunState): Pick<AskModelInput, 'runMs' | 'sessionMs' | 'leftMs'> {
  const now = Date.now()
  return {
    runMs: ranMs(state, run, now),
    sessionMs: Math.max(0, now - state.createdAt),
    ...(run.deadline && { leftMs: run.deadline.at - now }),
  }
}

/** Waits for the result. Enters the error if the grace period ends before a worker serves the agent. */
async function servedInTime<R>(asked: Promise<R>, serving: ServingWatch, agent: string): Promise<R> {
  let answered = false
  const settled = asked.finally(() => {
    answered = true
  })
  settled.catch(() => undefined)
  // A cancelled activity also ends; `settled` says how.
  const inTime = await serving.inGrace(() => answered).catch(() => true)
  if (!inTime) serving.enterError(`the agent "${agent}"`)
  return settled
}
