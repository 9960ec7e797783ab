// What a chat needs to know about a session, in little memory: its state, and its events without their contents.
import type { EventOf, SessionEvent } from '../session/events.ts'
import { fold } from '../session/fold/fold.ts'
import { lightOf } from '../session/light.ts'
import type { SessionState } from '../session/state.ts'

/** The outline of a session, or of the newer part of its conversation. It grows one event at a time. */
export interface UiOutline {
  /** The events without their contents: all, or those that the conversation needs from `start` on. */
  events: SessionEvent[]
  /** The number of JSON characters in each of them, without its large value. */
  sizes: number[]
  /** The state after them; undefined if the session has not started. */
  state: SessionState | undefined
  /** `seq` of the event with which the first answer in the outline begins; 0 if the outline covers the whole session. */
  start: number
  /** What has become known since then about calls in answers before `start`. */
  earlier: EventOf<'tool_resolved'>[]
}

/** An outline without events. */
export function emptyOutline(): UiOutline {
  return { events: [], sizes: [], state: undefined, start: 0, earlier: [] }
}

/** Adds an event, modifying the outline. */
export function addToOutline(outline: UiOutline, event: SessionEvent): void {
  outline.events.push(lightOf(event))
  outline.sizes.push(JSON.stringify(event).length)
  outline.state = fold(outline.state, [event])
}

/** `seq` of the newest event; 0 if there is none. */
export function newestSeq({ events }: UiOutline): number {
  return events.at(-1)?.seq ?? 0
}
