// Which calls an event leaves behind: their run has ended, or has gone on without them, before they had a result.
import type { SessionEvent } from '../../session/events.ts'
import type { OpenCall } from './session-columns.ts'

/** The error of a call that was left behind, and what is said of its request of approval. */
export const LEFT_BEHIND = {
  code: 'left_behind',
  message: 'The run was stopped, or went back, while this call was open.',
} as const

/** The error of a call that a person was asked about, until its run was over. */
export const NEVER_SAID = {
  code: 'outcome_unknown',
  message: 'The run was stopped, or went back, before anybody said what became of this call.',
} as const

const OPEN: readonly OpenCall['status'][] = ['issued', 'awaiting_approval', 'awaiting_answer', 'awaiting_resolution']

/** Those of the newest turn's calls, as they were before the event, that are left behind by it. */
export function callsLeftBehind(event: SessionEvent, calls: ReadonlyMap<string, OpenCall>): [callId: string, call: OpenCall][] {
  return endsTurn(event) ? [...calls].filter(([, call]) => OPEN.includes(call.status)) : []
}

function endsTurn(event: SessionEvent): boolean {
  switch (event.type) {
    case 'run_completed':
    case 'run_interrupted':
    case 'rolled_back':
      return true
    case 'error_entered':
      // One that ends by itself keeps its run.
      return event.strategy !== 'automatic'
    case 'recovery_started':
      return event.strategy === 'restart_run' || event.strategy === 'abandon'
    default:
      return false
  }
}
