// The calls that an event abandons: their run ended, or continued without them, before they had a result.
import type { SessionEvent } from '../../session/events.ts'
import { removesTurns } from '../../session/recovery/recovery.ts'
import type { OpenCall } from './session-columns.ts'

/** The error of an abandoned call, and the decision on its request for approval. */
export const ABANDONED = {
  code: 'left_behind',
  message: 'The run was stopped or rolled back while this call was open.',
} as const

/** The error of a call that was waiting for a person when its run ended. */
export const NEVER_RESOLVED = {
  code: 'outcome_unknown',
  message: 'The run was stopped or rolled back before the outcome of this call was resolved.',
} as const

/** The error of a call that was waiting for a person when a recovery repeated it. */
export const REPEATED = {
  code: 'outcome_unknown',
  message: 'A person chose to repeat this call before its outcome was resolved.',
} as const

const OPEN: readonly OpenCall['status'][] = ['issued', 'awaiting_approval', 'awaiting_answer', 'awaiting_resolution']

/** Those of the newest turn's calls that the event abandons, as they were before it. */
export function abandonedCalls(event: SessionEvent, calls: ReadonlyMap<string, OpenCall>): [callId: string, call: OpenCall][] {
  if (event.type === 'recovery_started' && event.strategy === 'selective') {
    const again = new Set((event.redo ?? []).flatMap(({ callId, as }) => (as === callId ? [] : [callId])))
    return [...calls].filter(([callId, call]) => again.has(callId) && OPEN.includes(call.status))
  }
  return endsTurn(event) ? [...calls].filter(([, call]) => OPEN.includes(call.status)) : []
}

function endsTurn(event: SessionEvent): boolean {
  switch (event.type) {
    case 'run_completed':
    case 'run_interrupted':
    case 'rolled_back':
      return true
    case 'recovery_started':
      return removesTurns(event)
    case 'run_started':
      // A message took the session out of an error.
      return true
    default:
      return false
  }
}
