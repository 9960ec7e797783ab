// The search for a point to go back to. What carries a rollback or a fork out and what previews it call the same function.
import type { SessionEvent, Target } from '../events.ts'
import { defined } from '../defined.ts'
import { shortHash } from '../digest.ts'
import { ACCEPTED_KEPT } from '../fold/fold.ts'
import { keptAt, restoredFrom } from './kept.ts'
import type { RestoredValues } from './restored.ts'
import {
  checkTarget,
  effectsAfter,
  locate,
  messagesAfter,
  newestRun,
  type ReportedEffects,
  type TargetPlace,
  TargetRefused,
} from './targets.ts'

/** Which point to look for. */
export interface PlaceQuery {
  /** Without a target, the newest point. */
  target?: Target
  /** For a rollback: messages up to this event leave the inbox. Default: the newest event. */
  upToSeq?: number
  /** The point is before the newest run's opening message. */
  newestRun?: true
  /** Whether to search in the archived past, too. */
  archived?: true
  /** Calls of which it matters whether they are among the effects that are not reported. */
  calls?: readonly string[]
}

/** A point to go back to, and what going back there changes. */
export interface PlaceToGoBackTo extends TargetPlace, ReportedEffects {
  /** Short hashes of the ids of the messages after the point that would be archived. */
  removed: string[]
  /** The messages that the newest run accepted, and its intent. */
  again?: { messages: { messageId: string; seq: number }[]; intent: number }
  /** What changes of the plan and the memory. */
  restored?: RestoredValues
}

/** Finds the point among all events of a session. @throws TargetRefused. */
export function placeIn(past: readonly { event: SessionEvent; digest: string }[], query: PlaceQuery): PlaceToGoBackTo {
  const { archived, calls } = query
  const events = past.map(({ event }) => event)
  const newest = events.at(-1)?.seq ?? 0
  const run = query.newestRun && newestRun(events)
  if (query.newestRun && !run) throw new TargetRefused('run_not_found', 'The session has no run to repeat: send a message.')
  const target = run ? { run: run.run } : query.target
  const place = locate(past, target && checkTarget(target), { archived: archived === true })
  // A repeated run accepts its own messages again; waiting messages keep waiting.
  const messages = messagesAfter(events, place.seq, run ? 0 : (query.upToSeq ?? newest))
  return {
    ...place,
    ...effectsAfter(events, place.seq, calls),
    removed: run ? [] : messages.map(({ messageId }) => shortHash(messageId)).slice(-ACCEPTED_KEPT),
    ...(run && { again: { messages, intent: run.intent } }),
    ...defined({ restored: restoredFrom(keptAt(events, place.seq), keptAt(events, newest)) }),
  }
}
