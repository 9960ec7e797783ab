// The part of the fold that is about tool calls: their states, what they wait for, and which effects they leave.
import { shortHash } from './digest.ts'
import { type Effect, type EventOf, type Resolution, resultsIdOf } from './events.ts'
import { jsonBytes } from './json.ts'
import { SNAPSHOT_BYTES } from './snapshot.ts'
import type { CallState, RunState, SessionState, UnknownCall } from './state.ts'
import { defined } from './defined.ts'

// A snapshot is twice in every execution's history: what grows with the session is bounded.
const KEYS_KEPT = 100
const EFFECTS_KEPT = 10
const UNKNOWN_KEPT = 50
const UNKNOWN_INPUT_BYTES = 4_000

/** Changes one call of the turn that is going on, if there is such a call. */
export function updateCall(state: SessionState, callId: string, change: (call: CallState, run: RunState) => void): void {
  const run = state.current
  const call = run?.calls.find((one) => one.callId === callId)
  if (run && call) change(call, run)
}

function endCall(state: SessionState, callId: string, status: 'completed' | 'failed' | 'unknown'): void {
  updateCall(state, callId, (call, run) => {
    call.status = status
    delete call.input
    delete call.asked
    delete call.progress
    if (run.calls.every(hasEnded)) {
      run.phase = 'turn_due'
      state.lastMessageId = resultsIdOf(run)
    }
  })
  settleStatus(state)
}

/** Whether the call has its result (or will never have another). */
export function hasEnded(call: CallState): boolean {
  return call.status === 'completed' || call.status === 'failed' || call.status === 'unknown'
}

/** Whether somebody outside has to say something before the call can go on. */
export function isWaiting(call: Pick<CallState, 'status'>): boolean {
  return call.status === 'awaiting_approval' || call.status === 'awaiting_answer' || call.status === 'awaiting_resolution'
}

/** A run waits when none of its calls can go on without somebody outside. */
export function settleStatus(state: SessionState): void {
  if (state.status !== 'running' && state.status !== 'waiting') return
  const calls = state.current?.phase === 'tools' ? state.current.calls : []
  const steps = calls.map(({ status, resolution: { effect, client } }) => ({ status, effect, isClient: client !== undefined }))
  state.status = waitForSomebody(steps) ? 'waiting' : 'running'
}

/** Whether somebody outside has to speak before any of a turn's calls, in their order, goes on: `decide` runs them so. */
export function waitForSomebody(calls: readonly (Pick<CallState, 'status'> & { effect: Effect; isClient: boolean })[]): boolean {
  let isHeldUp = false
  let someWait = false
  for (const call of calls) {
    if (isWaiting(call)) {
      someWait = true
      isHeldUp ||= call.effect !== 'read' && !call.isClient
    } else if (call.status === 'issued' && (call.effect === 'read' || !isHeldUp)) {
      return false
    }
  }
  return someWait
}

/** The call waits for somebody outside. */
export function waitFor(
  state: SessionState,
  callId: string,
  status: CallState['status'],
  { expiresAt, onExpiry, digest, reason }: NonNullable<CallState['asked']>,
): void {
  updateCall(state, callId, (call) => {
    call.status = status
    call.asked = {
      ...defined({ expiresAt, onExpiry, digest, reason }),
    }
  })
  settleStatus(state)
}

/** The run has failed: nobody is asked any more, what would be said now could not be carried out, and what was agreed to is not. */
export function leaveOpen(state: SessionState): void {
  for (const call of (state.current?.calls ?? []).filter((one) => one.status === 'issued' || isWaiting(one))) {
    call.status = call.status === 'awaiting_resolution' ? 'unknown' : 'failed'
    delete call.input
    delete call.asked
  }
}

/** A denied call ends with the `tool_failed` that follows. */
export function decideApproval(state: SessionState, event: EventOf<'approval_decided'>): void {
  updateCall(state, event.callId, (call) => {
    if (!event.approved) return
    call.status = 'issued'
    call.approved = true
    delete call.asked
    if (event.input !== undefined) call.input = event.input
    if (event.resolution) call.resolution = event.resolution
  })
  settleStatus(state)
}

/** The call has its result. */
export function completeCall(state: SessionState, event: EventOf<'tool_completed'>): void {
  updateCall(state, event.callId, (call, run) => {
    if (event.replayOf !== undefined || call.resolution.effect === 'read') return
    if (call.resolution.key !== undefined) rememberKey(state, call.resolution.key, event.callId)
    addEffect(run, event.callId)
  })
  endCall(state, event.callId, 'completed')
}

/** A failed external call surely did not happen; an idempotent one whose body was entered may have, and only this run has its key. */
export function failCall(state: SessionState, event: EventOf<'tool_failed'>): void {
  const mayHaveBegun = event.attempt > 0 || event.code === 'interrupted'
  updateCall(state, event.callId, (call, run) => {
    if (call.resolution.effect === 'idempotent' && mayHaveBegun) addEffect(run, event.callId)
  })
  endCall(state, event.callId, 'failed')
}

function addEffect(run: RunState, callId: string): void {
  if (run.effects.includes(callId)) return
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

/** Whether the run's messages can be taken again by a new run. */
export function canRestart(run: RunState): boolean {
  return !hasEffects(run) && !run.tookMore
}

function rememberKey(state: SessionState, key: string, callId: string): void {
  const hash = shortHash(key)
  delete state.keys[hash]
  state.keys[hash] = callId
  dropOldest(state.keys, KEYS_KEPT)
}

function dropOldest(entries: Record<string, unknown>, kept: number): void {
  const names = Object.keys(entries)
  for (const name of names.slice(0, Math.max(0, names.length - kept))) delete entries[name]
}

/** Nobody knows whether the call happened. */
export function markUnknown(state: SessionState, event: EventOf<'tool_unknown'>): void {
  const { run: number, turn, attempt, aliveForMs } = event
  updateCall(state, event.callId, (call, run) => {
    if (event.again !== undefined) return
    const { input = null, resolution } = call
    // One too large to be carried along was asked about when it was made; later only its digest is known.
    const kept = jsonBytes(input) <= UNKNOWN_INPUT_BYTES ? { input } : {}
    state.unknown[event.callId] = {
      run: number,
      turn,
      attempt,
      ...kept,
      resolution: withoutTerms(resolution),
      ...defined({ aliveForMs }),
    }
    keepUnknownWithinBounds(state.unknown)
    addEffect(run, event.callId)
    call.attempts = attempt
  })
  if (event.ask) waitFor(state, event.callId, 'awaiting_resolution', {})
  else endCall(state, event.callId, 'unknown')
}

/** What `verify` needs of it: on what terms it was agreed to does not matter any longer. */
function withoutTerms(resolution: Resolution): Resolution {
  const { approval: _, client: __, invalid: ___, ...needed } = resolution
  return needed
}

/** Arguments are dropped first, the oldest before the newer ones: without them `verify` cannot be asked, but the intent is still known. */
function keepUnknownWithinBounds(unknown: Record<string, UnknownCall>): void {
  dropOldest(unknown, UNKNOWN_KEPT)
  for (const call of Object.values(unknown)) {
    if (jsonBytes(unknown) <= SNAPSHOT_BYTES.unknown) return
    delete call.input
  }
  while (Object.keys(unknown).length > 1 && jsonBytes(unknown) > SNAPSHOT_BYTES.unknown) {
    dropOldest(unknown, Object.keys(unknown).length - 1)
  }
}

/** Somebody knows, or has decided, what became of an unknown call. */
export function resolveCall(state: SessionState, event: EventOf<'tool_resolved'>): void {
  const known = state.unknown[event.callId]
  if (!known) return
  // Left undone, it is as unknown as before: its `tool_failed` follows.
  if (event.decision === 'skip') return
  delete state.unknown[event.callId]
  if (!event.happened) {
    updateCall(state, event.callId, (call) => {
      if (call.status === 'awaiting_resolution') call.status = 'issued'
    })
    settleStatus(state)
  }
  if (event.happened && known.resolution.key !== undefined) rememberKey(state, known.resolution.key, event.callId)
  if (!event.happened && state.current?.run === known.run) removeEffect(state.current, event.callId)
}
