// The fold of tool calls: their states, what they wait for, and their lasting effects.
import { shortHash } from '../digest.ts'
import { answerIdOf, resultsIdOf } from '../ids.ts'
import { startBackground } from '../agents/background.ts'
import type { CalledChild } from '../agents/agent-call-facts.ts'
import type { EventOf, SessionEvent } from '../events.ts'
import type { Resolution, RunEffect } from '../call-facts.ts'
import { jsonBytes } from '../json.ts'
import { askingAfter, repliedTo } from '../question.ts'
import { hasEnded, isWithdrawn, madeAgain, needsInput, statusAfter } from '../past/call-status.ts'
import { useRule } from './rules.ts'
import { SNAPSHOT_BYTES } from './snapshot.ts'
import { cutText } from '../protocol/texts.ts'
import type { CallState, RunState, SessionState, UnknownCall } from '../state.ts'
import { defined } from '../defined.ts'

// Every execution's history contains two snapshots, so the size of everything in them must be bounded.
const KEYS_KEPT = 100
const EFFECTS_KEPT = 10
const EFFECT_BYTES = { tool: 42, id: 62 }
const UNKNOWN_KEPT = 50
const UNKNOWN_INPUT_BYTES = 4_000

/** Applies an event to the call of the current turn that it concerns, if there is one. `change`: the other changes. */
export function updateCall(
  state: SessionState,
  event: SessionEvent,
  change: (call: CallState, run: RunState) => void = () => undefined,
): void {
  const run = state.current
  const call = 'callId' in event && run?.calls.find((one) => one.callId === event.callId)
  if (!run || !call) return
  const hadEnded = hasEnded(call)
  call.status = statusAfter(event, call.status)
  change(call, run)
  if (!hadEnded && hasEnded(call)) endCall(state, run, call)
}

function endCall(state: SessionState, run: RunState, call: CallState): void {
  for (const member of ['input', 'asked', 'asking', 'progress'] as const) delete call[member]
  endTurn(state, run)
}

/** Ends the turn once all its calls have their results. */
function endTurn(state: SessionState, run: RunState): void {
  if (!run.calls.every(hasEnded)) return
  run.phase = 'turn_due'
  // Messages that a later turn accepted come after the results of a reopened turn.
  if (state.lastMessageId === answerIdOf(run)) state.lastMessageId = resultsIdOf(run)
  if (run.lastEffect?.turn === run.turn) run.lastEffect.seq = state.seq
}

/** Closes the turn when its run ends. Calls without a result get one that says so. */
export function closeTurn(state: SessionState): void {
  const { current } = state
  if (current?.phase === 'tools' && state.lastMessageId === answerIdOf(current)) state.lastMessageId = resultsIdOf(current)
}

/** Returns the run to the turn of its newest answer, where some calls get new results. */
export function reopenTurn(state: SessionState, run: RunState, event: EventOf<'recovery_started'>): void {
  const { turn = run.turn } = event
  if (run.turn > turn) run.lastTurn = run.turn
  run.turn = turn
  run.phase = 'tools'
  if (run.lastEffect?.turn === turn) delete run.lastEffect.seq
  if (state.lastMessageId === resultsIdOf(run)) state.lastMessageId = answerIdOf(run)
  const again = madeAgain(event)
  for (const call of run.calls) {
    if (again.has(call.callId)) delete state.unknown[call.callId]
    if (isWithdrawn(event, call.callId, call)) withdraw(call)
    call.callId = again.get(call.callId) ?? call.callId
  }
  endTurn(state, run)
}

/** Resets the call to what it was when the model requested it. */
function withdraw(call: CallState): void {
  call.status = 'requested'
  for (const member of ['asked', 'asking', 'approved', 'attempts', 'progress'] as const) delete call[member]
}

/** Makes the run wait if none of its calls can continue without a person or a client. */
export function settleStatus(state: SessionState): void {
  if (state.status !== 'running' && state.status !== 'waiting') return
  const calls = state.current?.phase === 'tools' ? state.current.calls : []
  const steps = calls.map(({ status, resolution: { effect, client } }) => ({
    status,
    effect,
    isClient: client !== undefined,
    ...(client?.agent && { isAgent: true as const }),
  }))
  state.status = needsInput(steps) ? 'waiting' : 'running'
}

/** Makes the call wait for a person. */
export function waitFor(state: SessionState, event: EventOf<'approval_requested' | 'tool_unknown'>): void {
  const { expiresAt, onExpiry, digest, reason, approvers } = event as NonNullable<CallState['asked']>
  updateCall(state, event, (call) => {
    call.asked = { ...defined({ expiresAt, onExpiry, digest, reason, approvers }) }
  })
  settleStatus(state)
}

/** Makes the call wait for a client's answer, or for the user's answer to its question. */
export function waitForAnswer(state: SessionState, event: EventOf<'answer_requested'>): void {
  const { expiresAt, asks, child, seq } = event
  updateCall(state, event, (call) => {
    call.asked = {
      ...defined({ expiresAt }),
      ...(asks && { digest: asks.digest, reason: asks.question.message }),
      ...(child && { child: { ...child, seq } }),
    }
    if (child) grant(state, child)
    if (!asks) return
    call.asking = askingAfter(call.asking, asks)
    call.attempts = asks.attempt
  })
  settleStatus(state)
}

/** Reserves what a child may spend, until it reports. */
export function grant(state: SessionState, { session, budget }: Pick<CalledChild, 'session' | 'budget'>): void {
  if (budget) state.granted = { ...state.granted, [session]: budget }
}

/** The call continues with the reply. The call of a client tool ends with the `tool_completed` that follows. */
export function receiveAnswer(state: SessionState, event: EventOf<'answer_received'>): void {
  const { reply } = event
  if (!reply) return
  updateCall(state, event, (call) => {
    delete call.asked
    if (call.asking) call.asking = repliedTo(call.asking, reply)
  })
  settleStatus(state)
}

/** A denied call ends with the `tool_failed` that follows. */
export function decideApproval(state: SessionState, event: EventOf<'approval_decided'>): void {
  useRule(state, event)
  updateCall(state, event, (call) => {
    if (!event.approved) return
    call.approved = true
    delete call.asked
    if (event.input !== undefined) call.input = event.input
    if (event.resolution) call.resolution = event.resolution
  })
  settleStatus(state)
}

/** Ends the call with its result. */
export function completeCall(state: SessionState, event: EventOf<'tool_completed'>): void {
  updateCall(state, event, (call, run) => {
    if (event.replayOf !== undefined || call.resolution.effect === 'read') return
    startBackground(state, run, call)
    rememberKeys(state, call.resolution, event.callId)
    addEffect(run, event, run.turn)
  })
  settleStatus(state)
}

/** A failed external call certainly did not happen. An idempotent one may have; a repetition would use the same key. */
export function failCall(state: SessionState, event: EventOf<'tool_failed'>): void {
  updateCall(state, event)
  settleStatus(state)
}

function addEffect(run: RunState, { callId, tool, effectId }: RunEffect, turn: number): void {
  if (turn >= (run.lastEffect?.turn ?? 0)) run.lastEffect = { turn }
  run.effects = run.effects.filter((one) => one.callId !== callId)
  run.effects.push({
    callId,
    tool: cutText(tool, EFFECT_BYTES.tool),
    ...(effectId !== undefined && { effectId: cutText(effectId, EFFECT_BYTES.id) }),
  })
  if (run.effects.length <= EFFECTS_KEPT) return
  run.effects.shift()
  run.moreEffects += 1
}

/** The first generation's key leads to the newest generation that completed. */
function rememberKeys(state: SessionState, { key, firstKey }: Resolution, callId: string): void {
  if (key !== undefined) rememberKey(state, key, callId)
  if (firstKey !== undefined) rememberKey(state, firstKey, callId)
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

/** Notes that it is unknown whether the call happened. */
export function markUnknown(state: SessionState, event: EventOf<'tool_unknown'>): void {
  const { run: number, turn, attempt, aliveForMs } = event
  updateCall(state, event, (call) => {
    if (event.again !== undefined) return
    const { input = null, resolution } = call
    // For arguments too large to keep, `verify` was called when the call was made. Later, only their digest is known.
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
    call.attempts = attempt
  })
  if (event.ask) waitFor(state, event)
  else settleStatus(state)
}

/** The part that `verify` needs. The terms of the approval no longer matter. */
function withoutTerms(resolution: Resolution): Resolution {
  const { approval: _, client: __, invalid: ___, approvedBy: ____, ...needed } = resolution
  return needed
}

/** Drops arguments first, beginning with the oldest. Without them, pawl cannot call `verify`, but it still knows the intent. */
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

/** Applies the outcome of an unknown call that has become known or was decided. */
export function applyLateOutcome(state: SessionState, event: EventOf<'tool_resolved'>): void {
  const known = state.unknown[event.callId]
  if (!known) return
  // After a skip, the outcome is as unknown as before: its `tool_failed` follows.
  if (event.decision === 'skip') return
  delete state.unknown[event.callId]
  updateCall(state, event)
  if (!event.happened) settleStatus(state)
  if (event.happened) rememberKeys(state, known.resolution, event.callId)
  if (event.happened && state.current?.run === known.run) addEffect(state.current, event, known.turn)
}
