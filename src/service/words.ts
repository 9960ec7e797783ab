// Words of the session that schemas list.
import type { SessionStatus } from '../session/events.ts'

/** What a session's status can be. */
export const CORE_STATUSES = ['idle', 'running', 'waiting', 'error', 'closed'] as const satisfies SessionStatus[]
