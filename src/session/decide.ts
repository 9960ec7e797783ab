// Decides a session's next step from its state alone. The shell in `workflows/` carries it out and records the outcome.
import { defined } from './defined.ts'
import type { TraceRoot } from './agents/agent-call-facts.ts'
import { childIdOf, isAgentCall, MAX_OPEN_AGENT_CALLS } from './agents/agent-calls.ts'
import { shortHash } from './digest.ts'
import type { StopReason, Usage } from './content.ts'
import type { RecoveryStrategy } from './agent-facts.ts'
import type { Resolution, ResolvedCall } from './call-facts.ts'
import { type Deadline, deadlineOf, deadlinesOf } from './deadlines.ts'
import { hasEnded, isWaiting } from './past/call-status.ts'
import { outputFailure } from './built-in-tools/output.ts'
import { nextQuestion } from './question.ts'
import type { ApprovedBy } from './call-facts.ts'
import { ruleFor } from './standing/rules.ts'
import { leavesByItself } from './recovery/recovery.ts'
import { modelCallsOf, turnsOf } from './turns.ts'
import type { CallState, QueuedMessage, RunState, SessionError, SessionState } from './state.ts'

/** The next step of a session. */
export type SessionStep =
  /** There is nothing to do until a message, a decision or an alarm arrives. */
  | { do: 'wait' }
  | { do: 'start_run'; run: number; message: QueuedMessage }
  | { do: 'start_turn'; run: number; turn: number; takes: string[] }
  | { do: 'call_model'; run: number; turn: number }
  /** Calls that need an approval, a client's answer or the answer to another question: the session requests each one. */
  | { do: 'ask'; calls: { call: CallState; for: 'approval' | 'answer' }[] }
  /** Calls that rules approve in a person's place, if those still hold. */
  | { do: 'use_rules'; calls: { call: CallState; by: ApprovedBy }[] }
  /** No answer for this call came in time, or the model wakes up. */
  | { do: 'expire'; call: CallState }
  /** Calls that may run in parallel now. */
  | { do: 'run_calls'; run: number; turn: number; calls: CallState[] }
  | { do: 'complete_run'; run: number; turns: number; stopReason: StopReason; usage: Usage; outputCall?: string }
  | { do: 'fail_run'; run: number; code: string; reason: string }
  /** Hooks of a turn that no model call follows. */
  | { do: 'end_hooks'; run: number; turn: number }
  /** An automatic recovery is due. */
  | { do: 'recover'; strategy: RecoveryStrategy }

/** How many reads of a turn run in parallel. */
export const MAX_PARALLEL_READS = 20

/** Which due times have passed. */
export interface Due {
  /** No answer for the call came in time. */
  call(call: CallState): boolean
  /** The run should have ended by now. */
  deadline(deadline: Deadline): boolean
  /** The next attempt to leave the error is due. */
  recovery(error: SessionError): boolean
  /** Whether a deadline ends a run yet. A session first records what its run had done in time in an execution that it takes over. */
  endsRuns(): boolean
}

/** The due times that have passed at `now`, in milliseconds since 1970. Not for the workflow, whose replay may see another time. */
export function dueAt(now: number): Due {
  return {
    call: (call) => expiryOf(call) <= now,
    deadline: ({ at }) => at <= now,
    recovery: ({ nextAttemptAt = now }) => nextAttemptAt <= now,
    endsRuns: () => true,
  }
}

/** As if no time had passed. */
export const NOTHING_DUE: Due = { call: () => false, deadline: () => false, recovery: () => false, endsRuns: () => false }

/** Whether a run is in progress. This includes a run that waits, and a session in an error that it leaves automatically. */
export function isRunInProgress({ status, error, current }: Pick<SessionState, 'status' | 'error'> & { current: object | null }): boolean {
  if (current === null) return false
  return status === 'running' || status === 'waiting' || (status === 'error' && error !== null && leavesByItself(error))
}

/** Decides the next step. */
export function decide(state: SessionState, due: Due): SessionStep {
  if (state.paused) return { do: 'wait' }
  const { current: run, error } = state
  if (state.status === 'error' && error && error.strategy !== 'automatic') {
    if (!leavesByItself(error)) return afterError(state)
    // A turn with the new message may succeed where the old turn failed, and the sender is waiting for an answer.
    const isJoined = run !== null && mayJoin(run, error) && takesOf(state, run, due).length > 0
    return isJoined || due.recovery(error) ? { do: 'recover', strategy: error.strategy } : { do: 'wait' }
  }
  if (!run) return nextRun(state)
  switch (run.phase) {
    case 'turn_due': {
      const exceeded = outputFailure(run) ?? limitExceeded(state, run, due)
      if (exceeded) return { do: 'fail_run', run: run.run, ...exceeded }
      return { do: 'start_turn', run: run.run, turn: turnsOf(run) + 1, takes: takesOf(state, run, due) }
    }
    case 'model': {
      const exceeded = deadlineExceeded(state, run, due)
      if (exceeded) return { do: 'fail_run', run: run.run, ...exceeded }
      return { do: 'call_model', run: run.run, turn: run.turn }
    }
    case 'tools':
      return continueCalls(state, run, due)
    case 'answered': {
      const { run: number, turn: turns, stopReason = 'end_turn', usage, outputCall } = run
      return { do: 'complete_run', run: number, turns, stopReason, usage, ...defined({ outputCall }) }
    }
  }
}

/** Whether the recovery leads to a turn that accepts the queued messages. If not, the messages would start one attempt after another. */
function mayJoin({ phase }: RunState, { strategy }: SessionError): boolean {
  return strategy !== 'continue_run' || phase === 'model' || phase === 'turn_due'
}

/** The limit that prevents another turn of the run, if one does. */
function limitExceeded(state: SessionState, run: RunState, due: Due): { code: string; reason: string } | undefined {
  // A run that failed before it accepted its message would pass the message to another run, and that run to the next.
  if (run.turn === 0) return undefined
  const { maxTurns } = run.limits ?? {}
  const turns = modelCallsOf(run)
  if (maxTurns !== undefined && turns >= maxTurns) {
    return { code: 'max_turns', reason: `The run reached its limit of ${turns} model calls (limits.maxTurns).` }
  }
  return deadlineExceeded(state, run, due)
}

function deadlineExceeded(state: SessionState, run: RunState, due: Due): { code: string; reason: string } | undefined {
  const passed = due.endsRuns() ? deadlinesOf(state, run).find(due.deadline) : undefined
  return passed && { code: 'deadline_exceeded', reason: passed.reason }
}

/**
 * The queued messages that the run's next turn accepts: those before the first one whose deadline has passed, because that one would end
 * the run. A model that sleeps, perhaps for days, accepts those after it, too.
 */
function takesOf(state: SessionState, run: RunState, due: Due): string[] {
  const hasPassed = (message: QueuedMessage): boolean => {
    const deadline = deadlineOf(message)
    return deadline !== undefined && due.deadline(deadline)
  }
  const opener = run.turn === 0 ? state.inbox.find(({ messageId }) => messageId === run.messageId) : undefined
  // The run ends at once, and the other messages open the next run.
  if (opener && (hasPassed(opener) || deadlinesOf(state, run).some(due.deadline))) return [opener.messageId]
  if (run.calls.some(({ resolution }) => resolution.client?.sleeps))
    return state.inbox.flatMap((message) => (hasPassed(message) ? [] : [message.messageId]))
  const first = state.inbox.findIndex(hasPassed)
  return state.inbox.slice(0, first < 0 ? undefined : first).map(({ messageId }) => messageId)
}

/** When the call stops waiting for an answer; infinity if it never does. */
export function expiryOf({ asked }: CallState): number {
  return asked?.expiresAt ?? Number.POSITIVE_INFINITY
}

/** A message takes the session out of an error that pawl does not leave automatically, unless a person must first resolve a call. */
function afterError(state: SessionState): SessionStep {
  return state.current?.calls.some(({ status }) => status === 'awaiting_resolution') ? { do: 'wait' } : nextRun(state)
}

function nextRun(state: SessionState): SessionStep {
  if (state.hooksDue !== undefined) return { do: 'end_hooks', ...state.hooksDue }
  const message = state.inbox[0]
  return message ? { do: 'start_run', run: state.run + 1, message } : { do: 'wait' }
}

function continueCalls(state: SessionState, run: RunState, due: Due): SessionStep {
  const open = run.calls.filter((call) => !hasEnded(call))
  const ruled = ruledCalls(state, open)
  const needs = open.flatMap((call) => {
    const need = ruled.has(call) ? undefined : needOf(state, call)
    return need ? [{ call, for: need }] : []
  })
  const toAsk = withinLimit(open, needs)
  if (toAsk.length > 0) return { do: 'ask', calls: toAsk }
  const expired = open.find((call) => isWaiting(call) && (due.call(call) || isWoken(state, run, call, due)))
  if (expired) return { do: 'expire', call: expired }
  const later = new Set(needs.map(({ call }) => call))
  const calls = nextCalls(open.filter((call) => !later.has(call)))
  // A rule is used when its call is about to be issued: until then, a person may revoke it.
  const toApprove = [...ruled].filter(([call]) => calls.includes(call) || call.resolution.client !== undefined)
  if (toApprove.length > 0) return { do: 'use_rules', calls: toApprove.map(([call, by]) => ({ call, by })) }
  if (calls.length > 0) return { do: 'run_calls', run: run.run, turn: run.turn, calls }
  const exceeded = deadlineExceeded(state, run, due)
  if (exceeded) return { do: 'fail_run', run: run.run, ...exceeded }
  return { do: 'wait' }
}

/** Leaves out the calls of agents for which too many are open. They are made when others have ended. */
function withinLimit<N extends { call: CallState; for: 'approval' | 'answer' }>(open: readonly CallState[], needs: readonly N[]): N[] {
  let left = MAX_OPEN_AGENT_CALLS - open.filter((call) => isAgentCall(call) && call.status === 'awaiting_answer').length
  return needs.filter((need) => need.for === 'approval' || !isAgentCall(need.call) || left-- > 0)
}

/** The calls that need an approval and that rules approve. Each use of a rule counts for one call. */
function ruledCalls(state: SessionState, open: readonly CallState[]): Map<CallState, ApprovedBy> {
  const ruled = new Map<CallState, ApprovedBy>()
  const taken = (rule: string): number => [...ruled.values()].filter((by) => by.rule === rule).length
  for (const call of open) {
    // Nobody has said that an effect may happen again whose outcome is unknown.
    const may = needOf(state, call) === 'approval' && admit(state, call).as === 'execute'
    const by = may ? ruleFor(state, call, taken) : undefined
    if (by) ruled.set(call, by)
  }
  return ruled
}

/** Any message wakes the model that its next turn accepts: woken for another one, it would see none, and sleep and wake again and again. */
export function isWoken(state: SessionState, run: RunState, { status }: CallState, due: Due): boolean {
  return status === 'asleep' && takesOf(state, run, due).length > 0
}

/** What the call needs from a person or a client first. The session requests nothing for a call that would not be executed. */
function needOf(state: SessionState, call: CallState): 'approval' | 'answer' | undefined {
  const { resolution, status, approved } = call
  if (status !== 'requested' && status !== 'issued') return undefined
  const need = resolution.approval && !approved ? 'approval' : resolution.client || nextQuestion(call) ? 'answer' : undefined
  if (!need) return undefined
  const { as } = admit(state, call)
  return as === 'execute' || as === 'verify_first' ? need : undefined
}

/**
 * Reads run in parallel up to the next call that is not a read. All other calls, including those of pawl's own tools, run one after another
 * in the model's order.
 * An effect that waits for a person blocks later effects, but not reads; a client tool blocks nothing.
 */
function nextCalls(open: readonly CallState[]): CallState[] {
  const reads: CallState[] = []
  let isHeldUp = false
  for (const call of open) {
    const { effect, client, builtIn } = call.resolution
    if (isWaiting(call)) {
      isHeldUp ||= effect !== 'read' && !client
    } else if (effect === 'read' && !builtIn) {
      reads.push(call)
      if (reads.length === MAX_PARALLEL_READS) return reads
    } else if (!isHeldUp) {
      return reads.length > 0 ? reads : [call]
    }
  }
  return reads
}

/** How a call is handled before it is run. */
export type CallAdmission =
  | { as: 'execute' }
  | { as: 'invalid'; code: string; message: string }
  /** The effect with this key has already completed, in call `of`. */
  | { as: 'replay'; of: string }
  /** The call has the same intent as call `of`, whose outcome is unknown. */
  | { as: 'verify_first'; of: string }

/** Whether a call may be executed, given its resolution and the session's earlier effects. */
export function admit(state: SessionState, call: Pick<CallState, 'resolution'>): CallAdmission {
  const { resolution } = call
  if (resolution.invalid) return { as: 'invalid', ...resolution.invalid }
  if (resolution.effect === 'read') return { as: 'execute' }
  if (resolution.key !== undefined && !isAskedAgain(state, resolution)) {
    // The state knows the effects that completed after the call was resolved; the resolution knows all earlier ones.
    const of = state.keys[shortHash(resolution.key)] ?? resolution.replayOf
    if (of !== undefined) return { as: 'replay', of }
  }
  for (const [callId, unknown] of Object.entries(state.unknown)) {
    const sameKey = resolution.key !== undefined && unknown.resolution.key === resolution.key
    if (sameKey || haveSameIntent(unknown.resolution, resolution)) return { as: 'verify_first', of: callId }
  }
  return { as: 'execute' }
}

/**
 * Whether the call asks an agent that works in the background no more: it has failed, was stopped, or has answered in a part of the session
 * that is gone. That an earlier call has started it is no answer.
 */
function isAskedAgain({ sessionId, background }: SessionState, { client, key }: Resolution): boolean {
  return client?.agent?.background === true && key !== undefined && background?.[childIdOf(sessionId, key)] === undefined
}

/** Compares both the model's own arguments and those that a hook substituted. */
function haveSameIntent(one: Resolution, other: Resolution): boolean {
  const digests = [other.inputDigest, other.ownDigest ?? other.inputDigest]
  return digests.includes(one.inputDigest) || digests.includes(one.ownDigest ?? one.inputDigest)
}

/** The run's stretch and its trace, if it is not its own. */
interface InTrace {
  stretch?: number | undefined
  trace?: TraceRoot | undefined
}

/** Makes the part of a call's input that follows from the session, its run and the call. `input`: the raw arguments. */
export function toolCallInput(
  { agent, context, tags, keysOf }: Pick<SessionState, 'agent' | 'context' | 'tags' | 'keysOf'>,
  { run, intent, stretch, trace, metadata }: Pick<RunState, 'run' | 'intent' | 'metadata'> & InTrace,
  call: ResolvedCall & { turn: number },
) {
  const { index, tool, effect, schemaDigest, key, generation } = call.resolution
  return {
    agent,
    run,
    intent,
    turn: call.turn,
    input: call.input,
    resolution: { index, tool, effect, schemaDigest, ...defined({ key, generation }) },
    ...defined({ keysOf, stretch, trace }),
    context,
    metadata,
    tags,
  }
}
