// Calls of a failed turn that are made again or skipped: the events that record this, and how a call changes when it is made again.
import { defined } from '../defined.ts'
import { callIdOf } from '../ids.ts'
import type { EventBody } from '../events.ts'
import type { Resolution } from '../call-facts.ts'
import { hasEnded } from '../past/call-status.ts'
import type { CallChoice } from './selective.ts'
import type { CallState, RunState } from '../state.ts'

/** Who decided, and why. */
interface Decider {
  by?: string | undefined
  reason?: string | undefined
}

/** The events of a choice. `calls`: the run's calls; those that are made again include their arguments. */
export function eventsOfChoice(run: RunState, calls: readonly CallState[], choice: CallChoice, decided: Decider): EventBody[] {
  const place = { run: run.run, turn: run.answerTurn ?? run.turn }
  const { keep, skip, redo, force } = choice
  const again = calls.flatMap((call) => (redo.includes(call.callId) ? [{ call, as: idWhenRedone(place.run, place.turn, call) }] : []))
  return [
    {
      type: 'recovery_started',
      strategy: 'selective',
      ...place,
      toSeq: run.answerSeq ?? 0,
      ...(keep.length > 0 && { keep }),
      ...(skip.length > 0 && { skip }),
      ...(redo.length > 0 && { redo: again.map(({ call: { callId }, as }) => ({ callId, as })) }),
      ...(force && { force }),
      ...defined({ by: decided.by, reason: decided.reason }),
    },
    { type: 'recovery_ended', run: place.run, strategy: 'selective' },
    ...again.flatMap(({ call, as }) => (as === call.callId ? [] : [issued(place, { ...call, callId: as, resolution: whenRedone(call) })])),
    ...calls.flatMap((call) => (skip.includes(call.callId) ? skipped(place, call, decided) : [])),
  ]
}

type TurnRef = Pick<RunState, 'run' | 'turn'>

function issued(place: TurnRef, { callId, input = null, resolution }: CallState): EventBody {
  const { tool, effect, inputDigest, index, key } = resolution
  const isAgain = resolution.generation !== undefined
  const about = { ...place, callId, tool, effect, inputDigest, index, ...(key && { key }), input }
  return { type: 'tool_issued', ...about, ...(isAgain && { resolution }) }
}

/** Tells the model that the call was skipped. If the model already knows that the outcome is unknown, nothing changes. */
function skipped(place: TurnRef, call: CallState, { by, reason }: Decider): EventBody[] {
  const { callId, status, resolution, asked, attempts: attempt = 0 } = call
  if (status === 'unknown') return []
  const where = { ...place, callId, tool: resolution.tool }
  const events: EventBody[] = status === 'requested' ? [issued(place, call)] : []
  if (status === 'awaiting_approval') {
    const digest = asked?.digest ?? resolution.inputDigest
    events.push({ type: 'approval_decided', ...where, digest, approved: false, ...defined({ by, reason }) })
  }
  if (status === 'awaiting_resolution') {
    const details = defined({ decidedBy: by, note: reason })
    events.push({ type: 'tool_resolved', ...where, by: 'person', happened: false, decision: 'skip', ...details })
  }
  const mayHaveBegun = attempt > 0 && status === 'awaiting_approval' && resolution.effect === 'idempotent'
  const why = mayHaveBegun ? `A person decided to skip this call. ${BEGUN_BEFORE}` : WHY_SKIPPED[status]
  const message = `${why ?? 'This call was not run: a person decided to skip it.'}${reason === undefined ? '' : ` Reason: ${reason}`}`
  return [...events, { type: 'tool_failed', ...where, attempt, code: 'skipped', message }]
}

/** What the model is told about an `idempotent` call that was attempted, and that a person then did not want. */
export const BEGUN_BEFORE = 'It was not executed again, but it may have taken effect in an earlier attempt.'

const WHY_SKIPPED: Partial<Record<CallState['status'], string>> = {
  failed: 'This call failed, and a person decided to skip it instead of repeating it.',
  awaiting_resolution: 'It is not known whether this call took effect. A person decided not to repeat it.',
}

/** The id under which a redone call continues. A call without a result is not made again. */
function idWhenRedone(run: number, turn: number, call: CallState): string {
  if (!hasEnded(call) && call.status !== 'awaiting_resolution') return call.callId
  const { index, generation } = whenRedone(call)
  return callIdOf(run, turn, index, generation)
}

/**
 * The resolution of the call's next generation. The effect of a completed call happens again under a new key. Any other call keeps its key,
 * so that a downstream service that knows the key does not repeat an effect that an earlier attempt had after all.
 */
function whenRedone(call: Pick<CallState, 'status' | 'resolution'>): Resolution {
  const { replayOf: _, approvedBy: __, ...same } = call.resolution
  const generation = (same.generation ?? 1) + 1
  const firstKey = same.firstKey ?? same.key
  if (call.status !== 'completed' || firstKey === undefined) return { ...same, generation }
  return { ...same, generation, key: `${firstKey}#${generation}`, firstKey }
}

/** Another resolution of the same call. It keeps the generation, and also the key if it resolves to the same effect. */
export function inPlaceOf(before: Resolution, newResolution: Resolution): Resolution {
  const { index, generation, key, firstKey, ownDigest } = before
  // Hooks' answers about a call apply to all its generations and builds.
  const own = { ...defined({ ownDigest }), ...(before.invalid?.code === 'denied' && { invalid: before.invalid }) }
  if (generation === undefined) return { ...newResolution, ...own, index }
  if (firstKey === undefined || newResolution.key !== firstKey || key === undefined) return { ...newResolution, ...own, index, generation }
  const { replayOf: _, ...same } = newResolution
  return { ...same, ...own, index, generation, key, firstKey }
}
