// Custom events: what tools and hooks report with `ctx.emit`, and their bounds. Activity results carry them, so their sum is bounded, too.
import { type Json, jsonBytes } from '../json.ts'

/** What a tool or a hook reported with `ctx.emit`. */
export interface CustomEvent {
  /** 1 to 200 characters. */
  name: string
  /** Absent if none was passed. */
  data?: Json
}

/** Maximum custom events of one attempt or hook; bytes of JSON of the data of one, and of all in one activity's result. */
export const CUSTOM_EVENT_LIMITS = { events: 100, dataBytes: 16_000, allBytes: 128_000 } as const

const MAX_NAME = 200
/** Characters that Postgres cannot store. Names must be stored there to be queried. */
const NO_NAME = /\0|\p{Surrogate}/u

/** Whether a custom event or a milestone can have the name. */
export function isEventName(name: unknown): name is string {
  return typeof name === 'string' && name !== '' && name.length <= MAX_NAME && !NO_NAME.test(name)
}

/** Whether a value is a list of custom events that fit into a call's result. The caller has already checked its nesting depth. */
export function areCustomEvents(value: unknown): value is CustomEvent[] {
  if (!Array.isArray(value) || value.length > CUSTOM_EVENT_LIMITS.events || jsonBytes(value) > CUSTOM_EVENT_LIMITS.allBytes) return false
  return value.every((one) => isEventName((one as Partial<CustomEvent> | null)?.name))
}
