// Events of a newer pawl: shown by their type, and left out of the state.
import { EVENT_TYPES } from '../../../src/session/event-types.ts'
import type { SessionEvent } from '../../../src/session/events.ts'

const TYPES: ReadonlySet<string> = new Set(EVENT_TYPES)

/** Whether this build knows what the event means. */
export const isKnown = ({ type }: SessionEvent): boolean => TYPES.has(type)
