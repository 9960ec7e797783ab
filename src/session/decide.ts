// What a session does next, from its state alone. The shell in `workflows/` carries it out and records what came of it.
import { shortHash } from './digest.ts'
import type { StopReason, Usage } from './content.ts'
import { hasEnded, isWaiting } from './fold-calls.ts'
import type { CallState, QueuedMessage, RunState, SessionState } from './state.ts'

/** The next step of a session. */
export type Decision =
  /** Nothing to do until a message, a person or an alarm says something. */
  | { do: 'wait' }
  | { do: 'start_run'; run: number; message: QueuedMessage }
  | { do: 'start_turn'; run: number; turn: number; takes: string[] }
  | { do: 'call_model'; run: number; turn: number }
  /** Calls that need somebody outside before they go on: each is to be asked for. */
  | { do: 'ask'; calls: { call: CallState; for: 'approval' | 'answer' }[] }
  /** Nobody answered for this call in time. */
  | { do: 'expire'; call: CallState }
  /** Calls that may run side by side now. */
  | { do: 'run_calls'; run: number; turn: number; calls: CallState[] }
  | { do: 'complete_run'; run: number; turns: number; stopReason: StopReason; usage: Usage }
  | { do: 'fail_run'; run: number; code: string; reason: string }

/** How many reads of a turn run side by side. */
export const READS_AT_ONCE = 20

/** Which due times have come. */
export interface Due {
  /** Nobody has answered for the call in time. */
  call(call: CallState): boolean
  /** The run has taken longer than its limit. */
  run(run: RunState): boolean
}

/** The due times that have come by a clock, in milliseconds since 1970. A replay may be given another time: not for the workflow. */
export function dueAt(now: number): Due {
  return { call: (call) => expiryOf(call) <= now, run: (run) => deadlineOf(run) <= now }
}

/** A run is going on, also while it waits, and while the session is in an error that it leaves by itself. */
export function isGoingOn({ status, error, current }: SessionState): boolean {
  return current !== null && (status === 'running' || status === 'waiting' || (status === 'error' && error?.strategy === 'automatic'))
}

/** Decides the next step. */
export function decide(state: SessionState, due: Due): Decision {
  const run = state.current
  if (state.status === 'error') {
    // An error that pawl leaves by itself keeps its run going; after any other one only a new message starts a new run.
    if (state.error?.strategy !== 'automatic') return nextRun(state)
  }
  if (!run) return nextRun(state)
  switch (run.phase) {
    case 'turn_due': {
      const exceeded = limitExceeded(run, due)
      if (exceeded) return { do: 'fail_run', run: run.run, ...exceeded }
      return { do: 'start_turn', run: run.run, turn: run.turn + 1, takes: state.inbox.map((message) => message.messageId) }
    }
    case 'model':
      return { do: 'call_model', run: run.run, turn: run.turn }
    case 'tools':
      return goOnWithCalls(state, run, due)
    case 'answered':
      return { do: 'complete_run', run: run.run, turns: run.turn, stopReason: run.stopReason ?? 'end_turn', usage: run.usage }
  }
}

/** The limit that forbids the run another turn, if one does. */
function limitExceeded(run: RunState, due: Due): { code: string; reason: string } | undefined {
  const { maxTurns } = run.limits ?? {}
  if (maxTurns !== undefined && run.turn >= maxTurns) {
    return { code: 'max_turns', reason: `The run made ${run.turn} model calls, its limit (limits.maxTurns).` }
  }
  return deadlineExceeded(run, due)
}

function deadlineExceeded(run: RunState, due: Due): { code: string; reason: string } | undefined {
  if (!due.run(run)) return undefined
  return { code: 'deadline_exceeded', reason: `The run took longer than ${run.limits?.deadlineMs} ms, its limit (limits.deadline).` }
}

/** When the run's limit is reached; endlessly late if it has none. */
export function deadlineOf({ startedAt, limits }: RunState): number {
  return limits?.deadlineMs === undefined ? Number.POSITIVE_INFINITY : startedAt + limits.deadlineMs
}

/** When nobody is waited for any longer; endlessly late if somebody always is. */
export function expiryOf({ asked }: CallState): number {
  return asked?.expiresAt ?? Number.POSITIVE_INFINITY
}

function nextRun(state: SessionState): Decision {
  const message = state.inbox[0]
  return message ? { do: 'start_run', run: state.run + 1, message } : { do: 'wait' }
}

function goOnWithCalls(state: SessionState, run: RunState, due: Due): Decision {
  const open = run.calls.filter((call) => !hasEnded(call))
  const toAsk = open.flatMap((call) => {
    const need = needOf(state, call)
    return need ? [{ call, for: need }] : []
  })
  if (toAsk.length > 0) return { do: 'ask', calls: toAsk }
  const expired = open.find((call) => isWaiting(call) && due.call(call))
  if (expired) return { do: 'expire', call: expired }
  const calls = nextCalls(open)
  if (calls.length > 0) return { do: 'run_calls', run: run.run, turn: run.turn, calls }
  const exceeded = deadlineExceeded(run, due)
  if (exceeded) return { do: 'fail_run', run: run.run, ...exceeded }
  return { do: 'wait' }
}

/** What the call needs from outside before anything else; nobody is asked about a call that would not be executed. */
function needOf(state: SessionState, call: CallState): 'approval' | 'answer' | undefined {
  const { resolution, status, approved } = call
  if (status !== 'requested' && status !== 'issued') return undefined
  const need = resolution.approval && !approved ? 'approval' : resolution.client ? 'answer' : undefined
  if (!need) return undefined
  const { as } = admit(state, call)
  return as === 'execute' || as === 'verify_first' ? need : undefined
}

/**
 * Reads run side by side up to the next call that is none; all others one after another, in the model's order.
 * An effect that waits for somebody holds up the effects after it, but no read; one that is answered outside holds up nothing.
 */
function nextCalls(open: readonly CallState[]): CallState[] {
  const reads: CallState[] = []
  let isHeldUp = false
  for (const call of open) {
    const { effect, client } = call.resolution
    if (isWaiting(call)) {
      isHeldUp ||= effect !== 'read' && !client
    } else if (effect === 'read') {
      reads.push(call)
      if (reads.length === READS_AT_ONCE) return reads
    } else if (!isHeldUp) {
      return reads.length > 0 ? reads : [call]
    }
  }
  return reads
}

/** What a call is answered with before it is run. */
export type CallAdmission =
  | { as: 'execute' }
  | { as: 'invalid'; code: string; message: string }
  /** The key's effect completed before, in this call. */
  | { as: 'replay'; of: string }
  /** The same intent as this call, whose outcome is unknown. */
  | { as: 'verify_first'; of: string }

/** Whether a call may be executed, by its resolution and by what the session has done before. */
export function admit(state: SessionState, call: CallState): CallAdmission {
  const { resolution } = call
  if (resolution.invalid) return { as: 'invalid', ...resolution.invalid }
  if (resolution.effect === 'read') return { as: 'execute' }
  if (resolution.key !== undefined) {
    // The state knows what has completed since the call was resolved; the resolution, all that had before.
    const of = state.keys[shortHash(resolution.key)] ?? resolution.replayOf
    if (of !== undefined) return { as: 'replay', of }
  }
  for (const [callId, unknown] of Object.entries(state.unknown)) {
    const sameKey = resolution.key !== undefined && unknown.resolution.key === resolution.key
    if (sameKey || unknown.resolution.inputDigest === resolution.inputDigest) return { as: 'verify_first', of: callId }
  }
  return { as: 'execute' }
}
