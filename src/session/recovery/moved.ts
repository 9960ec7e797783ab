// Whether a session has moved on since a person looked at it: whether what a recovery, a rollback or a fork would do may be different now.
import type { EventType, SessionEvent } from '../events.ts'

/** Whether an event of the type changes what going back would keep, archive, undo or execute. A record, so that each new type is considered. */
const MATTERS: Record<EventType, boolean> = {
  session_started: true,
  session_resumed: false,
  message_received: true,
  message_scheduled: false,
  messages_unscheduled: false,
  message_rejected: false,
  request_passed_on: false,
  run_started: true,
  turn_started: true,
  agent_declared: false,
  recovery_refused: false,
  model_attempt_failed: false,
  model_completed: true,
  compacted: false,
  compaction_failed: false,
  content_replaced: false,
  hook_answered: false,
  hooks_ended: false,
  tool_issued: true,
  tool_attempt_failed: false,
  tool_completed: true,
  tool_failed: true,
  tool_unknown: true,
  tool_resolved: true,
  tool_progress: false,
  milestone_reached: false,
  emitted: false,
  spent: false,
  budget_warning: false,
  budget_raised: false,
  plan_changed: true,
  memory_changed: true,
  approval_requested: false,
  approval_decided: true,
  approval_refused: false,
  approval_rule_given: false,
  approval_rule_revoked: false,
  answer_requested: false,
  sleep_started: false,
  answer_received: true,
  checkpoint_requested: false,
  checkpoint_made: false,
  rolled_back: true,
  forked: true,
  run_completed: true,
  run_interrupted: true,
  error_entered: true,
  recovery_started: true,
  recovery_ended: true,
  session_paused: false,
  session_unpaused: false,
  caller_told: false,
  allowance_raised: false,
  session_closed: false,
}

/** Whether the event changes what going back would do. */
export function moves({ type }: Pick<SessionEvent, 'type'>): boolean {
  return MATTERS[type]
}

/** The first of the events that changes what going back would do; undefined if none does. `since`: the newest event that a person has seen. */
export function movedBy(events: Iterable<SessionEvent>, since: number): SessionEvent | undefined {
  for (const event of events) if (event.seq > since && moves(event)) return event
  return undefined
}

/** The message of a refusal with `session_moved`. */
export function movedText(since: number, event: SessionEvent | undefined): string {
  const what = event === undefined ? 'its events since then are not known here' : `event ${event.seq} (${event.type}) came after it`
  return `The session has moved on since event ${since}: ${what}. Look at it again, then repeat the request.`
}
