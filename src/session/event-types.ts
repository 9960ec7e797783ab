// The names of all events, for checks of what callers pass.
import type { EventType } from './events.ts'

/** A record, so that none is left out. */
const ALL: Record<EventType, true> = {
  session_started: true,
  session_resumed: true,
  message_received: true,
  message_rejected: true,
  run_started: true,
  turn_started: true,
  agent_declared: true,
  recovery_refused: true,
  model_attempt_failed: true,
  model_completed: true,
  compacted: true,
  compaction_failed: true,
  hook_answered: true,
  hooks_ended: true,
  tool_issued: true,
  tool_attempt_failed: true,
  tool_completed: true,
  tool_failed: true,
  tool_unknown: true,
  tool_resolved: true,
  tool_progress: true,
  milestone_reached: true,
  emitted: true,
  plan_changed: true,
  memory_changed: true,
  approval_requested: true,
  approval_decided: true,
  answer_requested: true,
  answer_received: true,
  checkpoint_made: true,
  rolled_back: true,
  forked: true,
  run_completed: true,
  run_interrupted: true,
  error_entered: true,
  recovery_started: true,
  recovery_ended: true,
  session_paused: true,
  session_unpaused: true,
  session_closed: true,
}

/** The names of all events. */
export const EVENT_TYPES = Object.keys(ALL) as EventType[]
