// The strategy `selective`: which calls of the failed turn may be kept, skipped and made again.
import { hasEnded } from '../past/call-status.ts'
import { unknownCallsOf } from './recovery.ts'
import { isObject } from '../json.ts'
import type { CallState, RunState, SessionState } from '../state.ts'
import { beginningOf } from '../beginning.ts'

/** What happens to the calls that a request names. */
export interface CallChoice {
  keep: string[]
  skip: string[]
  redo: string[]
  /** Whether completed effects may happen again. */
  force: boolean
}

/** Whether the request names calls. */
export function namesCalls(request: object): boolean {
  return LISTS.some((list) => list in request)
}

const LISTS = ['keep', 'skip', 'redo'] as const

/** The choice in a request from outside; undefined if it is malformed. */
export function choiceIn(request: unknown): CallChoice | undefined {
  const { keep = [], skip = [], redo = [], force = false } = (isObject(request) ? request : {}) as Partial<Record<string, unknown>>
  if (!isIds(keep) || !isIds(skip) || !isIds(redo) || typeof force !== 'boolean') return undefined
  const named = [...keep, ...skip, ...redo]
  return new Set(named).size === named.length ? { keep, skip, redo, force } : undefined
}

function isIds(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string')
}

/** Why the choice is not possible; undefined if it is. `by`: who is responsible for it. */
export function problemWithChoice(
  state: SessionState,
  run: RunState,
  choice: CallChoice | undefined,
  by: string | undefined,
): { code: string; reason: string } | undefined {
  if (!choice) {
    return { code: 'invalid_calls', reason: 'Pass `keep`, `skip` and `redo` as lists of call ids, each id once, and `force` as a boolean.' }
  }
  const { keep, skip, redo, force } = choice
  const named = [...keep, ...skip, ...redo]
  if (named.length === 0) return { code: 'choose_calls', reason: `Name the calls to keep, to skip or to redo. ${callsOf(run)}` }
  const byId = new Map(run.calls.map((call) => [call.callId, call]))
  const of = (ids: readonly string[], is: (call: CallState) => boolean): string[] =>
    ids.filter((id) => {
      const call = byId.get(id)
      return call !== undefined && is(call)
    })
  const strange = named.filter((id) => !byId.has(id))
  if (strange.length > 0) {
    return {
      code: 'call_not_found',
      reason: `${listOf(strange)} is not a call of the failed turn, or has been made again since. ${callsOf(run)}`,
    }
  }
  const unnamed = unknownCallsOf(state, run).filter((id) => !named.includes(id))
  if (unnamed.length > 0) {
    return {
      code: 'outcome_unknown',
      reason: `It is unknown whether ${listOf(unnamed)} took effect: name each unknown call of the turn, and resolve those of earlier turns (resolve).`,
    }
  }
  const without = of(keep, (call) => !mayKeep(call))
  if (without.length > 0) {
    return { code: 'no_result', reason: `${listOf(without)} has no result to keep: redo or skip it. ${callsOf(run)}` }
  }
  const done = of(skip, (call) => !maySkip(call))
  if (done.length > 0) {
    return { code: 'already_completed', reason: `${listOf(done)} has completed, so it cannot be skipped: keep it. ${callsOf(run)}` }
  }
  const repeated = of(redo, isCompletedEffect)
  if (repeated.length > 0 && !(force && by?.trim())) {
    return {
      code: 'would_repeat_effect',
      reason: `${listOf(repeated)} has completed, so its effect would happen again. To repeat it anyway, set \`force\` and \`by\`; otherwise keep the call.`,
    }
  }
  return undefined
}

const mayKeep = hasEnded

function maySkip({ status }: CallState): boolean {
  return status !== 'completed'
}

/** What a person may choose for one call of the turn. */
export interface CallOptions {
  /** The call's id. */
  callId: string
  /** Whether it has a result that can stay. */
  keep: boolean
  /** Whether it can be skipped. */
  skip: boolean
  /** Whether it can be made again. `forced`: its effect has completed, so redoing it requires `force` and a name (`by`). */
  redo: true | 'forced'
}

/** What may be chosen for each call of the turn. */
export function callOptions({ calls }: RunState): CallOptions[] {
  return calls.map((call) => ({
    callId: call.callId,
    keep: mayKeep(call),
    skip: maySkip(call),
    redo: isCompletedEffect(call) ? 'forced' : true,
  }))
}

function isCompletedEffect({ status, resolution }: CallState): boolean {
  return status === 'completed' && resolution.effect !== 'read'
}

const SHOWN = 20

function listOf(ids: readonly string[]): string {
  const shown = ids.slice(0, SHOWN).map((id) => beginningOf(JSON.stringify(id).slice(1, -1), 60))
  return ids.length > SHOWN ? `${shown.join(', ')} and ${ids.length - SHOWN} more` : shown.join(', ')
}

function callsOf({ calls, leftOut = [] }: RunState): string {
  const all = [...calls.map(({ callId, status, resolution: { tool } }) => ({ callId, status, tool })), ...leftOut]
  const shown = all.slice(0, SHOWN).map(({ callId, status, tool }) => `${callId} (${tool}, ${status.replaceAll('_', ' ')})`)
  return `The turn's calls: ${shown.join(', ')}${all.length > SHOWN ? ', …' : ''}.`
}
