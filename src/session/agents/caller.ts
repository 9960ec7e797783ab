// The agent call that a session answers: which session asked, how its question ended, and what the caller has yet to be told.
import { defined } from '../defined.ts'
import type { EventOf, SessionEvent } from '../events.ts'
import { leavesByItself, unknownCallsOf } from '../recovery/recovery.ts'
import type { Budget } from '../spending/spend.ts'
import { exactUsd } from '../spending/model-price.ts'
import type { SessionState } from '../state.ts'
import type { CallerState, CallingCall, QuestionOutcome } from './agent-call-facts.ts'

/** The id of the message that asks the question. */
export function questionIdOf({ key, failures }: Pick<CallerState, 'key' | 'failures'>): string {
  return `${key}#${failures}`
}

/** Notes what the event, which has been applied to the state, means for the caller. In place. */
export function noteCaller(state: SessionState, event: SessionEvent): void {
  const { caller } = state
  if (!caller) return
  switch (event.type) {
    case 'message_received':
      if (event.call) accept(state, caller, event.call)
      break
    case 'allowance_raised':
      if (event.callId === undefined) raise(caller, event.budget)
      break
    case 'run_completed':
      end(caller, { as: 'answered', run: event.run })
      break
    case 'run_interrupted':
      // What was spent since the outcome counts for the caller, too.
      if (caller.outcome) caller.due = true
      break
    case 'error_entered':
      if (hasGivenUp(state, event)) end(caller, { as: 'failed', ...defined({ run: event.run }), code: event.code, reason: event.reason })
      break
    case 'recovery_started':
      // The failed run continues after all.
      if (caller.outcome?.as === 'failed' && event.strategy !== 'abandon') delete caller.outcome
      break
    case 'rolled_back':
      // The interrupted run is answered again after all.
      if (event.again && caller.outcome?.as === 'interrupted') {
        delete caller.outcome
        delete caller.due
      }
      break
    case 'caller_told':
      caller.told = { tokens: event.tokens, usd: event.usd }
      // In the meantime, the outcome may have changed, or more may have been spent.
      if (event.as === caller.outcome?.as && event.run === caller.outcome.run && isAllTold(state, caller)) delete caller.due
      break
    default:
  }
  // Interrupted, rolled back or abandoned. A message that waits continues with the question in another run.
  if (caller.call && !caller.outcome && !state.current && state.inbox.length === 0) {
    const { run, reason } = (event.type === 'run_interrupted' ? event : {}) as Partial<EventOf<'run_interrupted'>>
    end(caller, { as: 'interrupted', ...defined({ run, reason }) })
  }
}

function accept(state: SessionState, caller: CallerState, call: CallingCall): void {
  // A copy: a higher allowance changes it, and the event stays as it is.
  caller.call = { ...call }
  delete caller.outcome
  delete caller.due
  const allowance = allowanceFor(state, call.budget)
  if (allowance) caller.allowance = allowance
  else delete caller.allowance
}

/** What a session that has already spent something may spend in all, with this budget for the rest. */
function allowanceFor({ spend }: Pick<SessionState, 'spend'>, budget: Budget | undefined): Budget | undefined {
  if (!budget) return undefined
  const { maxUsd, maxTotalTokens } = budget
  return {
    ...(maxUsd !== undefined && { maxUsd: exactUsd((spend?.usd ?? 0) + maxUsd) }),
    ...(maxTotalTokens !== undefined && { maxTotalTokens: (spend?.tokens ?? 0) + maxTotalTokens }),
  }
}

/** The allowance grows by as much as the question's budget. */
function raise(caller: CallerState, budget: Budget): void {
  const { call, allowance = {} } = caller
  if (!call?.budget) return
  for (const name of ['maxUsd', 'maxTotalTokens'] as const) {
    const [had, has] = [call.budget[name], budget[name]]
    if (had !== undefined && has !== undefined) allowance[name] = exactUsd((allowance[name] ?? 0) + has - had)
  }
  call.budget = budget
}

/** Ends the question. An answer stays: what is said in the session afterwards is not part of it. */
function end(caller: CallerState, outcome: QuestionOutcome): void {
  if (!caller.call) return
  caller.due = true
  if (caller.outcome?.as === 'answered') return
  if (outcome.as !== 'answered' && !caller.outcome) caller.failures += 1
  caller.outcome = outcome
}

function isAllTold({ spend }: SessionState, { told }: CallerState): boolean {
  return (spend?.usd ?? 0) <= (told?.usd ?? 0) && (spend?.tokens ?? 0) <= (told?.tokens ?? 0)
}

/** Whether the session does not leave the error by itself, and no person is expected to help: the caller can do something else instead. */
function hasGivenUp(state: SessionState, event: EventOf<'error_entered'>): boolean {
  if (leavesByItself(event) || event.code === 'budget_exhausted') return false
  return !state.current || unknownCallsOf(state, state.current).length === 0
}
