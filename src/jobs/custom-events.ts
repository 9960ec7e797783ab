// What user code reports through `ctx.emit`. Each report is checked at once, so that an error reaches the code that caused it.
import { ToolError } from '../agent/errors.ts'
import { CUSTOM_EVENT_LIMITS, type CustomEvent, isEventName } from '../session/hooks/custom-events.ts'
import { type Json, jsonBytes } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { plainJson } from './json.ts'

/** Bytes of JSON that are left for custom events in one activity's result. */
export interface EventRoom {
  bytes: number
}

/** The room for custom events in one result, minus the events that the result already has. */
export function eventRoom(had: readonly CustomEvent[] = []): EventRoom {
  // The brackets of the list are 2 bytes, and it has one comma fewer than events.
  return { bytes: CUSTOM_EVENT_LIMITS.allBytes - 1 - had.reduce((sum, event) => sum + bytesOf(event), 0) }
}

export interface Reporter {
  /** @throws ToolError `invalid_event`, `event_too_large` or `too_many_events`. */
  emit(name: string, data?: Json): void
  /** The accepted events, in order. */
  readonly events: readonly CustomEvent[]
}

/** The source of the events, as named in error messages. */
const WHO = { attempt: ['attempt', 'one attempt'], hook: ['hook', 'all hooks of one step'] } as const

/** Collects the custom events of an attempt or of a hook. Hooks that share one result share the room. */
export function reporter(whose: keyof typeof WHO, room: EventRoom = eventRoom()): Reporter {
  const events: CustomEvent[] = []
  const [one, together] = WHO[whose]
  return {
    events,
    emit(name, data) {
      const event = checkedEvent(name, data)
      if (events.length === CUSTOM_EVENT_LIMITS.events) {
        const limit = `One ${one} reports at most ${CUSTOM_EVENT_LIMITS.events} custom events`
        throw new ToolError(`${limit}: combine several into one.`, { code: 'too_many_events', ...FOR_GOOD })
      }
      if (bytesOf(event) > room.bytes) {
        const limit = `The custom events of ${together} have at most ${numberText(CUSTOM_EVENT_LIMITS.allBytes)} bytes of JSON in all`
        throw new ToolError(`${limit}: ${REPORT_LESS}`, { code: 'event_too_large', ...FOR_GOOD })
      }
      room.bytes -= bytesOf(event)
      events.push(event)
    },
  }
}

/** The event's size in a list, including the comma that follows it. */
function bytesOf(event: CustomEvent): number {
  return jsonBytes(event) + 1
}

/** Not retryable: the same code would report the same event again. */
const FOR_GOOD = { retryable: false }
const REPORT_LESS = 'report what to look up, not the data.'

export const EVENT_NAME = 'a string of 1 to 200 characters without NUL bytes or lone surrogates'

function checkedEvent(name: string, data: Json | undefined): CustomEvent {
  if (!isEventName(name)) throw new ToolError(`The name of a custom event must be ${EVENT_NAME}.`, { code: 'invalid_event', ...FOR_GOOD })
  if (data === undefined) return { name }
  let plain: Json
  try {
    plain = plainJson(data)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new ToolError(`The data of a custom event must be JSON (${why}). Pass plain JSON to \`ctx.emit\`.`, {
      code: 'invalid_event',
      ...FOR_GOOD,
    })
  }
  const bytes = jsonBytes(plain)
  if (bytes <= CUSTOM_EVENT_LIMITS.dataBytes) return { name, data: plain }
  const has = `The data of the custom event "${name}" has ${numberText(bytes)} bytes of JSON`
  throw new ToolError(`${has}, and the limit is ${numberText(CUSTOM_EVENT_LIMITS.dataBytes)}: ${REPORT_LESS}`, {
    code: 'event_too_large',
    ...FOR_GOOD,
  })
}
