// A call that was not executed again shows the output of the call that it repeats.
import { defined } from '../session/defined.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'

type WithOutput = EventOf<'tool_completed' | 'tool_resolved'>

/** Whether the event contains an output of the call. */
export function hasOutput(event: SessionEvent, callId: string): event is WithOutput {
  return (event.type === 'tool_completed' || (event.type === 'tool_resolved' && event.happened)) && event.callId === callId
}

/** The call whose output the event shows; undefined if the event has its own or none. */
export function repeatedBy(event: SessionEvent): string | undefined {
  return event.type === 'tool_completed' ? event.replayOf : undefined
}

/** `seq` of the event with the output that this one shows; undefined if this one has its own or none. */
export function outputSeq(events: readonly SessionEvent[], event: SessionEvent): number | undefined {
  const callId = repeatedBy(event)
  const source = callId === undefined ? undefined : events.findLast((one) => one.seq < event.seq && hasOutput(one, callId))
  return source && (outputSeq(events, source) ?? source.seq)
}

/** The event, with another event's output. */
export function withOutputOf(event: SessionEvent, source: SessionEvent | undefined): SessionEvent {
  if (event.type !== 'tool_completed' || (source?.type !== 'tool_completed' && source?.type !== 'tool_resolved')) return event
  const { value, content, blob } = source
  return { ...event, ...defined({ value, content, blob }) }
}
