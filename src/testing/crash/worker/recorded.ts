// Detects when the outcome of a call is recorded: it is durable in Temporal's history, and the workflow is about to act on it. Its events
// pass through the orchestrator's event log within that workflow task.
import { subscribe } from 'node:diagnostics_channel'
import { EVENTS_CHANNEL, type LoggedEvents } from '../../../worker/orchestrator/events-channel.ts'
import type { MarkWriter } from '../marks.ts'

/** Watches the events that this process logs. */
export function watchRecords(marks: MarkWriter): void {
  subscribe(EVENTS_CHANNEL, (message) => {
    const { sessionId, entries } = message as LoggedEvents
    for (const { json } of entries) {
      const id = recordOf(JSON.parse(json) as RecordedEvent)
      if (id !== undefined) marks.reach(sessionId, { id })
    }
  })
}

/** The members of events that name a place; a session's checkpoints are numbered by `version`. */
interface RecordedEvent {
  type: string
  run?: number
  turn?: number
  callId?: string
  by?: string
  version?: number
}

/** The boundary of an event, if it has one. */
export function recordOf({ type, run, turn, callId, by, version }: RecordedEvent): string | undefined {
  switch (type) {
    case 'model_completed':
      return `model:${run}:${turn}/after`
    case 'compacted':
      return `compaction:${run}:${turn}/after`
    case 'tool_completed':
    case 'tool_failed':
      return `tool:${callId}/after`
    case 'tool_resolved':
      return by === 'verify' ? `verify:${callId}/after` : undefined
    case 'checkpoint_made':
      return `checkpoint:${version}/after`
    default:
      return undefined
  }
}
