// What a session does next, from its state alone. The shell in `workflows/` carries it out and records what came of it.
import { shortHash } from './digest.ts'
import type { StopReason, Usage } from './content.ts'
import { hasEnded } from './fold.ts'
import type { CallState, QueuedMessage, RunState, SessionState } from './state.ts'

/** The next step of a session. */
export type Decision =
  /** Nothing to do until a message, a person or a timer says something. */
  | { do: 'wait' }
  | { do: 'start_run'; run: number; message: QueuedMessage }
  | { do: 'start_turn'; run: number; turn: number; takes: string[] }
  | { do: 'call_model'; run: number; turn: number }
  /** Calls that may run side by side now. */
  | { do: 'run_calls'; run: number; turn: number; calls: CallState[] }
  | { do: 'complete_run'; run: number; turns: number; stopReason: StopReason; usage: Usage }
  | { do: 'fail_run'; run: number; code: string; reason: string }

/** How many reads of a turn run side by side. */
export const READS_AT_ONCE = 20

/** Decides the next step. `now` is the workflow's clock, in milliseconds. */
export function decide(state: SessionState, now: number): Decision {
  const run = state.current
  if (state.status === 'error') {
    // An error that pawl leaves by itself keeps its run going; after any other one only a new message starts a new run.
    if (state.error?.strategy !== 'automatic') return nextRun(state)
  }
  if (!run) return nextRun(state)
  switch (run.phase) {
    case 'turn_due': {
      const exceeded = limitExceeded(run, now)
      if (exceeded) return { do: 'fail_run', run: run.run, ...exceeded }
      return { do: 'start_turn', run: run.run, turn: run.turn + 1, takes: state.inbox.map((message) => message.messageId) }
    }
    case 'model':
      return { do: 'call_model', run: run.run, turn: run.turn }
    case 'tools':
      return { do: 'run_calls', run: run.run, turn: run.turn, calls: nextCalls(run.calls) }
    case 'answered':
      return { do: 'complete_run', run: run.run, turns: run.turn, stopReason: run.stopReason ?? 'end_turn', usage: run.usage }
  }
}

/** The limit that forbids the run another turn, if one does. */
function limitExceeded(run: RunState, now: number): { code: string; reason: string } | undefined {
  const { maxTurns, deadlineMs } = run.limits ?? {}
  if (maxTurns !== undefined && run.turn >= maxTurns) {
    return { code: 'max_turns', reason: `The run made ${run.turn} model calls, its limit (limits.maxTurns).` }
  }
  if (deadlineMs !== undefined && now >= run.startedAt + deadlineMs) {
    return { code: 'deadline_exceeded', reason: `The run took longer than ${deadlineMs} ms, its limit (limits.deadline).` }
  }
  return undefined
}

function nextRun(state: SessionState): Decision {
  const message = state.inbox[0]
  return message ? { do: 'start_run', run: state.run + 1, message } : { do: 'wait' }
}

/** Reads run side by side up to the next call that is none; all others one after another, in the model's order. */
function nextCalls(calls: readonly CallState[]): CallState[] {
  const open = calls.filter((call) => !hasEnded(call))
  const firstOther = open.findIndex((call) => call.resolution.effect !== 'read')
  if (firstOther === 0) return open.slice(0, 1)
  return open.slice(0, Math.min(firstOther === -1 ? open.length : firstOther, READS_AT_ONCE))
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
