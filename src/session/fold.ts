// The fold: what each event does to a session's state. The same code in the workflow, the activities and the store's rebuild.
import { addUsage, NO_USAGE } from './content.ts'
import { shortHash } from './digest.ts'
import type { EventOf, SessionEvent } from './events.ts'
import { callIdOf } from './events.ts'
import type { CallState, RunState, SessionState } from './state.ts'

const ACCEPTED_KEPT = 2_000
// A snapshot is twice in every execution's history: what grows with the session is bounded.
const KEYS_KEPT = 100
const EFFECTS_KEPT = 10

/** The state that a session's first event gives. */
export function initialState(event: EventOf<'session_started'>): SessionState {
  return {
    v: 1,
    sessionId: event.sessionId,
    agent: event.agent,
    epoch: event.executionId,
    context: event.context,
    tags: event.tags,
    status: 'idle',
    seq: event.seq,
    createdAt: event.at,
    updatedAt: event.at,
    run: 0,
    current: null,
    error: null,
    inbox: [],
    accepted: [],
    keys: {},
    unknown: {},
    turns: 0,
    usage: NO_USAGE,
  }
}

/** The state after `events`; `state` is the caller's own and is changed in place. */
export function fold(state: SessionState | undefined, events: Iterable<SessionEvent>): SessionState | undefined {
  let folded = state
  for (const event of events) {
    if (event.type === 'session_started') folded = initialState(event)
    else if (folded) apply(folded, event)
  }
  return folded
}

/** Applies one event to the state, in place. Events that do not fit the state (there are none in a sound log) change little. */
export function apply(state: SessionState, event: SessionEvent): void {
  state.seq = event.seq
  state.updatedAt = event.at
  switch (event.type) {
    case 'session_started':
    case 'message_rejected':
    case 'model_attempt_failed':
    case 'tool_attempt_failed':
      return
    case 'session_resumed':
      state.epoch = event.executionId
      state.status = 'idle'
      state.error = null
      return
    case 'message_received':
      state.inbox.push({ messageId: event.messageId, ...(event.metadata && { metadata: event.metadata }) })
      state.accepted.push(shortHash(event.messageId))
      if (state.accepted.length > ACCEPTED_KEPT) state.accepted.shift()
      return
    case 'run_started':
      state.run = event.run
      state.current = openRun(event)
      state.status = 'running'
      state.error = null
      return
    case 'turn_started':
      startTurn(state, event)
      return
    case 'model_completed':
      completeModelCall(state, event)
      return
    case 'tool_issued':
      updateCall(state, event.callId, (call) => {
        call.status = 'issued'
        if (event.resolution) call.resolution = event.resolution
      })
      return
    case 'tool_completed':
      completeCall(state, event)
      return
    case 'tool_failed':
      failCall(state, event)
      return
    case 'tool_unknown':
      markUnknown(state, event)
      return
    case 'tool_resolved':
      resolveCall(state, event)
      return
    case 'run_completed':
    case 'run_interrupted':
      state.current = null
      state.status = 'idle'
      state.error = null
      return
    case 'error_entered':
      state.status = 'error'
      state.error = {
        code: event.code,
        reason: event.reason,
        at: event.at,
        strategy: event.strategy,
        ...(event.run !== undefined && { run: event.run }),
      }
      return
    case 'recovery_started':
      startRecovery(state, event)
      return
    case 'recovery_ended':
      state.error = null
      state.status = state.current ? 'running' : 'idle'
      return
    case 'session_closed':
      state.status = 'closed'
      return
  }
}

function openRun(event: EventOf<'run_started'>): RunState {
  return {
    run: event.run,
    messageId: event.messageId,
    metadata: event.metadata ?? {},
    startedAt: event.at,
    turn: 0,
    phase: 'turn_due',
    calls: [],
    usage: NO_USAGE,
    taken: [],
    effects: [],
    moreEffects: 0,
  }
}

function startTurn(state: SessionState, event: EventOf<'turn_started'>): void {
  const run = state.current
  if (!run) return
  const takes = new Set(event.takes)
  run.taken.push(...state.inbox.filter((message) => takes.has(message.messageId)))
  state.inbox = state.inbox.filter((message) => !takes.has(message.messageId))
  run.turn = event.turn
  run.phase = 'model'
  run.calls = []
  state.turns += 1
}

function completeModelCall(state: SessionState, event: EventOf<'model_completed'>): void {
  const run = state.current
  if (!run) return
  const inputs = event.content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))
  run.calls = event.calls.map((resolution) => ({
    callId: callIdOf(event.run, event.turn, resolution.index),
    index: resolution.index,
    input: inputs[resolution.index] ?? null,
    resolution,
    status: 'requested',
  }))
  run.limits = event.limits
  run.stopReason = event.stopReason
  run.usage = addUsage(run.usage, event.usage)
  state.usage = addUsage(state.usage, event.usage)
  if (run.calls.length > 0) run.phase = 'tools'
  else run.phase = event.stopReason === 'pause_turn' ? 'turn_due' : 'answered'
}

function updateCall(state: SessionState, callId: string, change: (call: CallState, run: RunState) => void): void {
  const run = state.current
  const call = run?.calls.find((one) => one.callId === callId)
  if (run && call) change(call, run)
}

function endCall(state: SessionState, callId: string, status: 'completed' | 'failed' | 'unknown'): void {
  updateCall(state, callId, (call, run) => {
    call.status = status
    delete call.input
    if (run.calls.every(hasEnded)) run.phase = 'turn_due'
  })
}

/** Whether the call has its result (or will never have another). */
export function hasEnded(call: CallState): boolean {
  return call.status !== 'requested' && call.status !== 'issued'
}

function completeCall(state: SessionState, event: EventOf<'tool_completed'>): void {
  updateCall(state, event.callId, (call, run) => {
    if (event.replayOf !== undefined || call.resolution.effect === 'read') return
    if (call.resolution.key !== undefined) rememberKey(state, call.resolution.key, event.callId)
    addEffect(run, event.callId)
  })
  endCall(state, event.callId, 'completed')
}

/** A failed external call surely did not happen; an idempotent one whose body was entered may have, and only this run has its key. */
function failCall(state: SessionState, event: EventOf<'tool_failed'>): void {
  const mayHaveBegun = event.attempt > 0 || event.code === 'interrupted'
  updateCall(state, event.callId, (call, run) => {
    if (call.resolution.effect === 'idempotent' && mayHaveBegun) addEffect(run, event.callId)
  })
  endCall(state, event.callId, 'failed')
}

function addEffect(run: RunState, callId: string): void {
  run.effects.push(callId)
  if (run.effects.length <= EFFECTS_KEPT) return
  run.effects.shift()
  run.moreEffects += 1
}

function removeEffect(run: RunState, callId: string): void {
  const kept = run.effects.filter((one) => one !== callId)
  if (kept.length === run.effects.length) run.moreEffects -= 1
  run.effects = kept
}

/** Whether the run has done, or may have done, what a restart would repeat. */
export function hasEffects(run: RunState): boolean {
  return run.effects.length + run.moreEffects > 0
}

function rememberKey(state: SessionState, key: string, callId: string): void {
  const hash = shortHash(key)
  delete state.keys[hash]
  state.keys[hash] = callId
  const oldest = Object.keys(state.keys)
  if (oldest.length > KEYS_KEPT) for (const one of oldest.slice(0, oldest.length - KEYS_KEPT)) delete state.keys[one]
}

function markUnknown(state: SessionState, event: EventOf<'tool_unknown'>): void {
  updateCall(state, event.callId, (call, run) => {
    if (event.again !== undefined) return
    const { input = null, resolution } = call
    state.unknown[event.callId] = { run: event.run, turn: event.turn, attempt: event.attempt, input, resolution }
    addEffect(run, event.callId)
  })
  endCall(state, event.callId, 'unknown')
}

function resolveCall(state: SessionState, event: EventOf<'tool_resolved'>): void {
  const known = state.unknown[event.callId]
  if (!known) return
  delete state.unknown[event.callId]
  if (event.happened && known.resolution.key !== undefined) rememberKey(state, known.resolution.key, event.callId)
  if (!event.happened && state.current?.run === known.run) removeEffect(state.current, event.callId)
}

function startRecovery(state: SessionState, event: EventOf<'recovery_started'>): void {
  const run = state.current
  if (event.strategy === 'restart_run' && run) {
    state.inbox = [...run.taken, ...state.inbox]
    state.current = null
  }
  if (event.strategy === 'abandon') state.current = null
}
