// Work that a session does not repeat when its execution cannot be replayed: the next execution reuses the answers of that execution's
// activities.
import type { CallModelResult, ExecuteToolResult, PriorAnswer, Succession } from '../calls/activities.ts'
import type { Continuation, LateResultSignal } from '../session/protocol/protocol.ts'
import type { CallState, RunState, SessionState } from '../session/state.ts'
import { recordEnded, recorded, recordReports, whereIn } from './calls/call.ts'
import type { Journal } from './journal.ts'

/** The unused answers. Each is used once, in the order in which they arrived. */
export interface Inheritance {
  /** The next answer to the model call of that turn. */
  model(run: number, turn: number): Promise<CallModelResult> | undefined
  /** The next answer to the tool call. Rejects with `EndedBefore` if the call may have been made and its outcome is unknown. */
  call(callId: string): Promise<ExecuteToolResult> | undefined
  /** Whether it is not known what the next attempt at the call did. */
  isLost(callId: string): boolean
  /** The result of such a call has arrived. */
  complete(late: LateResultSignal): void
  /** Records the outcomes of calls that will not run because of a stop. */
  settle(journal: Journal, calls: readonly CallState[]): void
  /** Whether unused answers remain for this turn of the run or a later one. */
  isAheadOf(run: Pick<RunState, 'run' | 'turn'>): boolean
  /** Whether the session has got to what no answer is left for. */
  isUsedUp(): boolean
  /** What the next execution of the session inherits. */
  left(): readonly PriorAnswer[]
}

/** An execution may have made the attempt and ended before it could record the outcome. */
export class EndedBefore extends Error {
  override readonly name = 'EndedBefore'
}

/** `state`: the session as stored; undefined if nothing is stored. */
export function startInheriting({ answers = [], unreplayable }: Succession, state: SessionState | undefined): Inheritance {
  return inheriting([...answers.filter(isUsable(answers, state)), ...(unreplayable || answers.length > 0 ? lostCalls(answers, state) : [])])
}

/** After a continue-as-new: inherits the answers that the predecessor had not used. */
export function continueInheriting({ inherited = [] }: Pick<Continuation, 'inherited'>): Inheritance {
  return inheriting(inherited as PriorAnswer[])
}

function inheriting(unused: readonly PriorAnswer[]): Inheritance {
  const left = [...unused]
  let hasMissed = false

  function take<O extends PriorAnswer['of']>(
    of: O,
    isIt: (one: PriorAnswer & { of: O }) => boolean,
  ): (PriorAnswer & { of: O }) | undefined {
    const at = left.findIndex((one) => one.of === of && isIt(one as PriorAnswer & { of: O }))
    return at < 0 ? undefined : (left.splice(at, 1)[0] as PriorAnswer & { of: O })
  }

  /** An answer that the session asks for. */
  function noted<T>(answer: T | undefined): T | undefined {
    hasMissed ||= answer === undefined
    return answer
  }

  const takeCall = (callId: string) => take('call', (one) => one.callId === callId)
  const indexOf = (callId: string): number => left.findIndex((one) => one.of === 'call' && one.callId === callId)

  return {
    isLost(callId) {
      const one = left[indexOf(callId)]
      return one?.of === 'call' && one.result === undefined
    },
    complete({ callId, ...result }) {
      const at = indexOf(callId)
      const one = left[at]
      if (one?.of === 'call') left[at] = { ...one, result: { kind: 'completed', ...result } }
    },
    left: () => left,
    isUsedUp: () => hasMissed || left.length === 0,
    isAheadOf: ({ run, turn }) => left.some((one) => one.run === run && one.turn >= turn),
    model(run, turn) {
      const answer = noted(take('model', (one) => one.run === run && one.turn === turn))
      return answer && Promise.resolve(answer.result)
    },
    call(callId) {
      const answer = noted(takeCall(callId))
      if (!answer) return undefined
      return answer.result ? Promise.resolve(answer.result) : Promise.reject(new EndedBefore(MAY_HAVE_BEEN_MADE))
    },
    settle(journal, calls) {
      for (const call of calls) {
        let newest: ReturnType<typeof takeCall>
        for (let one = takeCall(call.callId); one; one = takeCall(call.callId)) newest = one
        if (newest) record(journal, call, newest.result)
      }
    },
  }
}

const MAY_HAVE_BEEN_MADE = 'The workflow that made this call could not continue, and no result of the call is known.'

/**
 * Messages that arrived later may be part of a turn that had not begun, and the model has not seen them: its answer counts only if calls
 * followed from it, in its turn or in a later one of its run. A call counts if the session knows it, or will know it from such an answer.
 */
function isUsable(answers: readonly PriorAnswer[], state: SessionState | undefined): (one: PriorAnswer) => boolean {
  const { run, turn, phase, calls = [] } = state?.current ?? {}
  const newest = state?.run ?? 0
  const turnsWithCalls = new Set(answers.flatMap((one) => (hasCalls(one) ? [turnOf(one)] : [])))
  return (one) => {
    // An earlier execution has used it.
    if (one.run < newest || (one.run === newest && run === undefined)) return false
    if (turnsWithCalls.has(turnOf(one))) return true
    if (one.of === 'model' && one.result.kind === 'completed' && hasCallsAfter(answers, one)) return true
    return one.of === 'call' ? calls.some(({ callId }) => callId === one.callId) : one.run === run && one.turn === turn && phase === 'model'
  }
}

const turnOf = ({ run, turn }: PriorAnswer): string => `${run}/${turn}`

/** The model had paused, or another hook or an output that was missing had it continue. */
function hasCallsAfter(answers: readonly PriorAnswer[], { run, turn }: PriorAnswer): boolean {
  return answers.some((one) => hasCalls(one) && one.run === run && one.turn > turn)
}

function hasCalls(answer: PriorAnswer): boolean {
  return answer.of === 'model' && answer.result.kind === 'completed' && answer.result.calls.length > 0
}

/** Calls that were in progress in an activity other than their body's, such as `verify`. */
function lostCalls(answers: readonly PriorAnswer[], state: SessionState | undefined): PriorAnswer[] {
  const known = new Set(answers.flatMap((one) => (one.of === 'call' ? [one.callId] : [])))
  const { run = 0, turn = 0, calls = [] } = state?.current ?? {}
  const place = { run, turn }
  const begun = calls.filter(({ status, resolution }) => status === 'issued' && resolution.effect === 'external')
  return begun.flatMap(({ callId }) => (known.has(callId) ? [] : [{ of: 'call' as const, ...place, callId }]))
}

function record(journal: Journal, call: CallState, result: ExecuteToolResult | undefined): void {
  const { current } = journal.state
  if (!current) return
  const where = whereIn(current, call)
  switch (result?.kind) {
    case 'completed': {
      const { attempt, startedAt, worker } = result
      recordReports(journal, where, result)
      journal.append({ type: 'tool_completed', ...where, attempt, startedAt, worker, ...recorded(result) })
      return
    }
    case 'failed':
      journal.append({ type: 'tool_failed', ...where, attempt: result.attempt, code: result.code, message: result.message })
      return
    case 'not_begun':
    case 'limited':
    case 'asks':
      return
    case 'interrupted':
      if (result.begun) recordEnded(journal, current, call)
      return
    default:
      recordEnded(journal, current, call)
  }
}
