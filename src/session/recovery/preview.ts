// What each strategy would do to a failed run: which results stay, which leave the transcript, and which calls are made again.
import { generationOf, requestIdOf } from '../ids.ts'
import type { RecoveryStrategy } from '../agent-facts.ts'
import { hasEnded } from '../past/call-status.ts'
import { problemWith, RECOVERIES, suggestedStrategy } from './recovery.ts'
import { type CallOptions, callOptions } from './selective.ts'
import { joinsModelCall, turnsOf } from '../turns.ts'
import type { RunState, SessionError, SessionState } from '../state.ts'

/** A call of the run that has a result in the transcript. */
interface EndedCall {
  callId: string
  turn: number
  /** Whether it completed an effect. pawl answers another request for it from its key. */
  isEffect: boolean
}

/** The first step after a recovery. */
export type NextStep =
  /** The calls in `executes`, and the model's next answer. */
  | { step: 'calls'; run: number; turn: number }
  | { step: 'model_call'; run: number; turn: number }
  /** The run's messages are answered from the beginning. */
  | { step: 'new_run'; run: number }
  /** The model has already answered, so the run completes. */
  | { step: 'completion'; run: number }

/** What a strategy would do to a failed run. Calls are named by their ids. */
export interface RecoveryPreview {
  /** The strategy. */
  strategy: RecoveryStrategy
  /** Whether pawl suggests it. */
  suggested: boolean
  /** Why it is not possible now; absent if it is. */
  refused?: { code: string; reason: string }
  /** Calls whose results the model still sees. */
  keeps: string[]
  /** Completed effects whose results leave the transcript. The model is told about them, and pawl answers another request from the key. */
  replays: string[]
  /** Other calls whose results leave the transcript. */
  leaves: string[]
  /** Calls without a result that are executed. */
  executes: string[]
  /** Calls without a result that are never run. */
  drops: string[]
  /** For `selective`: the options for each call of the newest answer. The other lists say what happens to calls that are not named. */
  choices?: CallOptions[]
  /** The first step afterwards; absent if the session waits for a message or a person, or if the step depends on the choice. */
  next?: NextStep
}

/** Previews all strategies for the failed run, the suggested one first. `ended`: the run's calls that have a result in the transcript. */
export function previewRecoveries(state: SessionState, run: RunState, ended: readonly EndedCall[]): RecoveryPreview[] {
  const suggested = suggestedStrategy(state, state.error ?? { code: '' })
  const shown = withoutReplaced(run, ended)
  const previews = STRATEGIES.map((strategy) => ({ ...preview(state, run, shown, strategy), suggested: strategy === suggested }))
  return previews.sort((one, other) => Number(other.suggested) - Number(one.suggested))
}

const STRATEGIES: readonly RecoveryStrategy[] = [...RECOVERIES, 'manual']

function preview(
  state: SessionState,
  run: RunState,
  ended: readonly EndedCall[],
  strategy: RecoveryStrategy,
): Omit<RecoveryPreview, 'suggested'> {
  const refused = refusalOf(state, run, strategy)
  const open = openCallsOf(run)
  const keepsAll = strategy === 'continue_run' || strategy === 'selective' || strategy === 'manual'
  const lastTurn = keepsAll ? run.turn : strategy === 'restart_from_last_effect' ? (run.lastEffect?.turn ?? 0) : 0
  const left = ended.filter(({ turn }) => turn > lastTurn)
  const next = nextStepOf(state, run, strategy, open)
  return {
    strategy,
    ...(refused && { refused }),
    keeps: idsOf(ended.filter(({ turn }) => turn <= lastTurn)),
    replays: idsOf(left.filter(({ isEffect }) => isEffect)),
    leaves: idsOf(left.filter(({ isEffect }) => !isEffect)),
    executes: strategy === 'continue_run' || strategy === 'selective' ? open : [],
    drops: keepsAll ? [] : open,
    ...(strategy === 'selective' && { choices: callOptions(run) }),
    ...(next && { next }),
  }
}

/** Why the session would refuse the strategy; undefined if it would not. */
function refusalOf(state: SessionState, run: RunState, strategy: RecoveryStrategy): RecoveryPreview['refused'] {
  if (isAutomatic(state.error) && strategy !== 'abandon' && strategy !== 'manual') {
    return { code: 'recovers_by_itself', reason: 'The session leaves this error by itself once its cause is gone.' }
  }
  return problemWith(state, run, strategy)
}

function isAutomatic(error: SessionError | null): boolean {
  return error?.strategy === 'automatic'
}

function nextStepOf(state: SessionState, current: RunState, strategy: RecoveryStrategy, open: readonly string[]): NextStep | undefined {
  const { run, turn, phase } = current
  const next: NextStep = { step: 'model_call', run, turn: turnsOf(current) + 1 }
  switch (strategy) {
    case 'manual':
    // The result depends on the calls that a person names.
    case 'selective':
      return undefined
    case 'abandon':
      // Messages that no turn has accepted.
      return state.inbox.length > 0 ? { step: 'new_run', run: state.run + 1 } : undefined
    case 'restart_run':
      return { step: 'new_run', run: state.run + 1 }
    case 'restart_from_last_effect':
      return next
    case 'continue_run':
      if (phase === 'answered') return { step: 'completion', run }
      if (open.length > 0) return { step: 'calls', run, turn }
      return phase === 'model' && !joinsModelCall(state, current) ? { step: 'model_call', run, turn } : next
  }
}

/** The calls, without earlier generations of those that were made again. The transcript has the newest result of each. */
function withoutReplaced({ calls, leftOut = [] }: RunState, ended: readonly EndedCall[]): EndedCall[] {
  const newest = new Map<string, number>()
  for (const { callId } of [...ended, ...calls, ...leftOut]) {
    const request = requestIdOf(callId)
    newest.set(request, Math.max(newest.get(request) ?? 1, generationOf(callId)))
  }
  return ended.filter(({ callId }) => newest.get(requestIdOf(callId)) === generationOf(callId))
}

/** Calls of the newest turn without a result, including those that the state could not hold. */
function openCallsOf({ phase, calls, leftOut = [] }: RunState): string[] {
  if (phase !== 'tools') return []
  return idsOf([...calls, ...leftOut].filter((call) => !hasEnded(call)))
}

function idsOf(calls: readonly { callId: string }[]): string[] {
  return calls.map(({ callId }) => callId)
}
