// Detects when the outcome of a call is recorded: it is durable in Temporal's history, and the workflow is about to act on it. Its events
// pass through the orchestrator's event log within that workflow task.
import { subscribe } from 'node:diagnostics_channel'
import { EVENTS_CHANNEL, type LoggedEvents } from '../../../worker/orchestrator/events-channel.ts'
import { defined } from '../../../session/defined.ts'
import type { Mark } from '../boundaries.ts'
import type { MarkWriter } from '../marks.ts'

/** Watches the events that this process logs. */
export function watchRecords(marks: MarkWriter): void {
  subscribe(EVENTS_CHANNEL, (message) => {
    const { sessionId, entries } = message as LoggedEvents
    for (const { json } of entries) {
      const mark = markOf(JSON.parse(json) as RecordedEvent)
      if (mark) marks.reach(sessionId, mark)
    }
  })
}

/** The members of events that name a place; a session's checkpoints are numbered by `version`. */
interface RecordedEvent {
  type: string
  run?: number
  turn?: number
  callId?: string
  tool?: string
  by?: string
  version?: number
}

/** The mark of an event, if it is a boundary. It names the tool, because a call that pawl itself answers has no other mark. */
export function markOf(event: RecordedEvent): Mark | undefined {
  const id = recordOf(event)
  return id === undefined ? undefined : { id, ...defined({ tool: event.tool }) }
}

/** The boundary of an event, if it has one. */
function recordOf({ type, run, turn, callId, by, version }: RecordedEvent): string | undefined {
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
