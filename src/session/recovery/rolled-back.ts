// The event of a rollback. A module of its own, because the workflow does not need the search for the point.
import { defined } from '../defined.ts'
import type { EventBody, EventOf } from '../events.ts'
import type { SessionState } from '../state.ts'
import type { PlaceToGoBackTo } from './going-back.ts'

/** What the event says besides the point: the request, and what it forgets or repeats. */
type AboutRollback = Pick<EventOf<'rolled_back'>, 'upToSeq' | 'target' | 'keys' | 'alsoForgotten' | 'again' | 'by' | 'reason'>

/** The event that takes the session back to the point. */
export function rolledBackTo(place: Omit<PlaceToGoBackTo, 'digest' | 'again' | 'among'>, about: AboutRollback): EventBody {
  const { seq: toSeq, lastMessageId, effects, more, removed, restored } = place
  return {
    type: 'rolled_back',
    toSeq,
    ...about,
    ...defined({ lastMessageId }),
    effects,
    ...(more > 0 && { moreEffects: more }),
    ...(removed.length > 0 && { removed }),
    ...defined({ restored }),
  }
}

/** The calls of which the state remembers a key, or that the outcome is unknown: a rollback that forgets effects names each of them. */
export function rememberedCalls({ keys, unknown }: Pick<SessionState, 'keys' | 'unknown'>): string[] {
  return [...new Set([...Object.values(keys), ...Object.keys(unknown)])]
}
