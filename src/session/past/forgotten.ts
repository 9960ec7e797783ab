// The effects that a session forgets: a person has undone them outside of pawl, so their keys and unknown outcomes no longer count.
import type { EventOf } from '../events.ts'

/** The calls whose effects the rollback forgets and that anything outside the transcript may still know. */
export function forgottenCalls({ keys, effects, alsoForgotten = [] }: EventOf<'rolled_back'>): readonly string[] {
  return keys === 'forgotten' ? [...effects.map(({ callId }) => callId), ...alsoForgotten] : []
}
