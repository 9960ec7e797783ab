// What the strategy `selective` would do with a choice of calls, before it is carried out: the same checks, events and fold, applied to a
// copy.
import { requestIdOf } from '../ids.ts'
import type { SessionEvent } from '../events.ts'
import { fold } from '../fold/fold.ts'
import { hasEnded } from '../past/call-status.ts'
import type { NextStep } from './preview.ts'
import { problemWith } from './recovery.ts'
import { eventsOfChoice } from './redo.ts'
import { nextStepOf } from './rollback-preview.ts'
import { type CallChoice, problemWithChoice } from './selective.ts'

/** What would happen to the calls of the failed turn. Calls are named by their ids. */
export interface ChoicePreview {
  /** Calls whose results the model sees. */
  keeps: string[]
  /** Calls of which the model is told that they were skipped. */
  skips: string[]
  /** Calls that are executed for the first time. */
  executes: string[]
  /** Calls that are executed again, and under which ids. */
  repeats: { callId: string; as: string; isEffect: boolean }[]
  /** The first step afterwards; absent: the session waits for a person. */
  next?: NextStep
}

/** `by`: who is responsible. Calls that the state could not hold are left out: only the session can read them. */
export function previewChoice(
  events: readonly SessionEvent[],
  choice: CallChoice,
  by: string | undefined,
): ChoicePreview | { refused: { code: string; reason: string } } {
  const before = fold(undefined, events)
  const run = before?.current
  if (!before?.error || !run) return { refused: { code: 'not_in_error', reason: 'The session has no failed run.' } }
  const refused = problemWith(before, run, 'selective') ?? problemWithChoice(before, run, choice, by)
  if (refused) return { refused }
  const completed = new Set(run.calls.flatMap(({ callId, status }) => (status === 'completed' ? [callId] : [])))
  const { seq, at } = events.at(-1) as SessionEvent
  const bodies = eventsOfChoice(run, run.calls, choice, { by })
  const after = fold(undefined, [...events, ...bodies.map((body, index) => ({ v: 1, seq: seq + 1 + index, at, ...body }) as SessionEvent)])
  const calls = after?.current?.calls ?? []
  const skips = new Set(choice.skip.map(requestIdOf))
  const redone = new Map(choice.redo.map((callId) => [requestIdOf(callId), callId]))
  const next = after && nextStepOf(after)
  const isRedone = (callId: string): boolean => redone.has(requestIdOf(callId))
  return {
    keeps: calls.flatMap((call) => (hasEnded(call) && !skips.has(requestIdOf(call.callId)) ? [call.callId] : [])),
    skips: calls.flatMap(({ callId }) => (skips.has(requestIdOf(callId)) ? [callId] : [])),
    executes: calls.flatMap((call) => (!hasEnded(call) && !isRedone(call.callId) ? [call.callId] : [])),
    repeats: calls.flatMap(({ callId: as, resolution }) => {
      const callId = redone.get(requestIdOf(as))
      return callId === undefined ? [] : [{ callId, as, isEffect: completed.has(callId) && resolution.effect !== 'read' }]
    }),
    ...(next && { next }),
  }
}
