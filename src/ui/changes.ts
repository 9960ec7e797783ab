// Which events change what a chat shows or what its page may do next.
import type { SessionEvent } from '../session/events.ts'

const CHANGING: ReadonlySet<SessionEvent['type']> = new Set([
  'session_started',
  'forked',
  'message_received',
  'message_rejected',
  'turn_started',
  'model_completed',
  'tool_issued',
  'approval_requested',
  'approval_decided',
  'answer_received',
  'tool_completed',
  'tool_failed',
  'tool_unknown',
  'tool_resolved',
  'run_completed',
  'run_interrupted',
  'error_entered',
  'recovery_started',
  'recovery_ended',
  'rolled_back',
])

/** Whether a page that has shown everything before the event must check the conversation again. */
export function changesChat(event: SessionEvent): boolean {
  return CHANGING.has(event.type) || (event.type === 'answer_requested' && event.asks !== undefined)
}
