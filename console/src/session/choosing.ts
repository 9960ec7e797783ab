// What a person may choose for each call of a failed turn. Pure.
import type { SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { hasEnded } from '../../../src/session/past/call-status.ts'
import type { ChoicePreview } from '../../../src/session/recovery/choice-preview.ts'
import { type CallChoice, callOptions } from '../../../src/session/recovery/selective.ts'
import type { CallState } from '../../../src/session/state.ts'
import { NEXT, type PreviewLine } from './words.ts'

/** `run`: it is not named, so a call without a result is executed. */
export type Fate = 'run' | 'keep' | 'skip' | 'redo'

export interface FatedCall {
  callId: string
  tool: string
  status: CallState['status']
  fates: Fate[]
  /** What happens to it unless the person chooses; absent: they must. */
  usual?: Fate
  /** Making it again repeats an effect that has completed. */
  repeatsEffect: boolean
  /** Whether it took effect is unknown. */
  isUnknown: boolean
}

export const WORDS: Readonly<Record<Fate, string>> = { run: 'run it', keep: 'keep its result', skip: 'skip it', redo: 'make it again' }

/** The calls of the failed turn, in the model's order. */
export function fatesOf(events: readonly SessionEvent[]): FatedCall[] {
  const { current: run, error } = fold(undefined, events) ?? {}
  if (!run || !error) return []
  const calls = new Map(run.calls.map((call) => [call.callId, call]))
  return callOptions(run).flatMap(({ callId, keep, skip, redo }) => {
    const call = calls.get(callId)
    if (!call) return []
    const { status, resolution } = call
    const isUnknown = status === 'awaiting_resolution' || status === 'unknown'
    // A call without a result is not made again, but executed.
    const isOpen = !hasEnded(call) && !isUnknown
    const possible: [Fate, boolean][] = [
      ['run', isOpen],
      ['keep', keep],
      ['skip', skip],
      ['redo', !isOpen],
    ]
    const fates = possible.flatMap(([fate, isPossible]) => (isPossible ? [fate] : []))
    // A person decides about a call that may have happened.
    const usual: Fate | undefined = isUnknown ? undefined : isOpen ? 'run' : 'keep'
    return [{ callId, tool: resolution.tool, status, fates, ...(usual && { usual }), repeatsEffect: redo === 'forced', isUnknown }]
  })
}

/** The choice as the session expects it. */
export function choiceOf(calls: readonly FatedCall[], chosen: ReadonlyMap<string, Fate>, isForced: boolean): CallChoice {
  const named = (fate: Fate): string[] => calls.flatMap(({ callId, usual }) => ((chosen.get(callId) ?? usual) === fate ? [callId] : []))
  const redo = named('redo')
  return { keep: named('keep'), skip: named('skip'), redo, force: isForced && needsForce(calls, redo) }
}

/** Whether the choice repeats an effect that has completed. */
export const needsForce = (calls: readonly FatedCall[], redo: readonly string[]): boolean =>
  calls.some(({ callId, repeatsEffect }) => repeatsEffect && redo.includes(callId))

/** What the choice would do. */
export function linesOfChoice({ keeps, skips, executes, repeats, next }: ChoicePreview): PreviewLine[] {
  const again = repeats.filter(({ isEffect }) => !isEffect).map(nameOfRepeat)
  const effects = repeats.filter(({ isEffect }) => isEffect).map(nameOfRepeat)
  const parts: [PreviewLine['tone'], string, string[]][] = [
    ['quiet', 'Keeps the results of', keeps],
    ['quiet', 'Tells the model that it was skipped:', skips],
    ['quiet', 'Executes', executes],
    ['warn', 'Makes again', again],
    ['bad', 'Repeats effects that have completed:', effects],
  ]
  const lines = parts.flatMap(([tone, what, calls]): PreviewLine[] =>
    calls.length === 0 ? [] : [{ tone, text: `${what} ${calls.join(', ')}.` }],
  )
  return [...lines, { tone: 'quiet', text: next ? NEXT[next.step] : 'Then it waits for a person.' }]
}

const nameOfRepeat = ({ callId, as }: ChoicePreview['repeats'][number]): string => (as === callId ? callId : `${callId} as ${as}`)
