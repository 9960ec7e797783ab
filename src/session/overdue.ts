// How long the body of a tool may outlive its timeout.

/**
 * Milliseconds after its timeout until the process of an `external` body is ended. If no supervisor confirms a death, other workers count
 * the body as dead after the timeout and the same time, from the moment at which they learn that its heartbeats have stopped.
 */
export const OVERDUE_GRACE_MS = 5_000
