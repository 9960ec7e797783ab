// One model call of a turn: retried until it answers, fails permanently, or is stopped.
import { sleep } from '@temporalio/workflow'
import type { CallModelInput, CallModelResult } from '../activities/contract.ts'
import { timerMs } from '../session/backoff.ts'
import { ranMs } from '../session/pause.ts'
import type { RunState, SessionState } from '../session/state.ts'
import { MAX_DEATHS } from '../session/attempts.ts'
import { defined } from '../session/defined.ts'
import { answerIn, interruptedWhile, modelCalls, whyLost } from './activities.ts'
import { countAttempts } from './attempts.ts'
import { recordHooks } from './hooks.ts'
import { eventsOf } from './journal.ts'
import type { Failure, Session } from './open-session.ts'
import type { Serving } from './serving.ts'

/** How a model call ended; `model_completed` itself is in the journal. */
export type ModelCallEnd =
  | { end: 'completed' }
  /** A cost that had to be assumed leaves too little of the budget. */
  | { end: 'held_up'; reason: string }
  | { end: 'stopped'; by?: { hook: string; reason: string } }
  | ({ end: 'failed' } & Failure)

const MAX_STALE = 3

/** Makes the model call of `run`'s turn and records it. */
export async function callModel({ journal, serving, alarms }: Session, run: RunState): Promise<ModelCallEnd> {
  const { agent } = journal.state
  const { run: number, turn } = run
  // Numbers continue after a recovery, and the budget of retries begins anew.
  const attempts = countAttempts((error) => journal.append({ type: 'model_attempt_failed', run: number, turn, error }), run.modelAttempts)
  let how: 'first' | 'again' | 'until_served' = 'first'
  let stale = 0
  for (;;) {
    // What an attempt has said of the agent brings the limits of the run.
    alarms.follow()
    const input: CallModelInput = { agent, ...eventsOf(journal), run: number, turn, ...timesOf(journal.state, run) }
    if (attempts.used.attempts > 0) input.prior = attempts.used
    if (how === 'until_served') input.untilServed = true
    if (journal.state.facts) input.known = journal.state.facts.digest
    let result: CallModelResult
    try {
      const asked = modelCalls(how).callModel(input)
      result = answerIn(how === 'until_served' ? await servedInTime(asked, serving, agent) : await asked)
    } catch (error) {
      const lost = whyLost(error)
      if (lost.how === 'cancelled') return { end: 'stopped' }
      if (lost.how === 'not_begun') {
        how = 'until_served'
        continue
      }
      attempts.lost(lost)
      const givenUp = attempts.givenUp()
      if (givenUp !== undefined) return { end: 'failed', code: 'worker_died', reason: `The model call ${givenUp}.` }
      if (attempts.used.failures >= MAX_DEATHS) return { end: 'failed', code: 'model_call_failed', reason: lost.message, transient: true }
      continue
    }
    if (result.facts) journal.append({ type: 'agent_declared', ...result.facts })
    attempts.failed(result.failed)
    recordHooks(journal, number, result.hooks)
    if (result.kind !== 'completed' && result.spent) {
      journal.append({ type: 'spent', run: number, turn, attempt: attempts.used.attempts + 1, ...result.spent })
    }
    switch (result.kind) {
      case 'completed': {
        serving.served()
        const { attempt, content, stopReason, usage, model, price, calls, hooksOfAnswer, metadata, promptDigest, outputProblem, spent } =
          result
        const about = {
          attempt,
          model,
          content,
          stopReason,
          usage,
          calls,
          ...(metadata && { metadata }),
          ...defined({ price, promptDigest, outputProblem, spent }),
        }
        journal.append({ type: 'model_completed', run: number, turn, ...about })
        recordHooks(journal, number, hooksOfAnswer)
        return { end: 'completed' }
      }
      case 'stopped':
        serving.served()
        return { end: 'stopped', by: { hook: result.hook, reason: result.reason } }
      case 'failed':
        serving.served()
        if (result.assumed) return { end: 'held_up', reason: result.reason }
        return { end: 'failed', code: result.code, reason: result.reason, transient: result.transient }
      case 'again':
        // Retried here and not by Temporal: so the failed attempt is recorded now, and a stop can end the backoff.
        serving.served()
        how = 'again'
        alarms.follow()
        if (result.fallback) attempts.fallBack(result.fallback)
        else if (await interruptedWhile(sleep(timerMs(result.afterMs)))) return { end: 'stopped' }
        continue
      case 'gated':
        serving.served()
        how = 'again'
        alarms.follow()
        if (await interruptedWhile(sleep(timerMs(result.afterMs)))) return { end: 'stopped' }
        continue
      case 'not_served':
        how = 'until_served'
        continue
      case 'archive_unavailable':
        serving.archiveUnavailable(result.reason)
        how = 'until_served'
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
    }
  }
}

/** What a worker needs for the deadlines: durations only, because its clock need not be the server's. */
function timesOf(state: SessionState, run: RunState): Pick<CallModelInput, 'runMs' | 'sessionMs' | 'leftMs'> {
  const now = Date.now()
  return {
    runMs: ranMs(state, run, now),
    sessionMs: Math.max(0, now - state.createdAt),
    ...(run.deadline && { leftMs: run.deadline.at - now }),
  }
}

/** Waits for the result; enters the error when the grace period ends before a worker serves the agent. */
async function servedInTime(asked: Promise<CallModelResult>, serving: Serving, agent: string): Promise<CallModelResult> {
  let answered = false
  const settled = asked.finally(() => {
    answered = true
  })
  settled.catch(() => undefined)
  // A cancelled activity ends, too: `settled` says how.
  const inTime = await serving.inGrace(() => answered).catch(() => true)
  if (!inTime) serving.enterError(`the agent "${agent}"`)
  return settled
}
