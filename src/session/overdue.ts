// How long the body of a tool may outlive its timeout.

/**
 * Milliseconds after its timeout until the process of an `external` body is ended. If no supervisor confirms a death, other workers count
 * the body as dead once the timeout plus this time has passed since they learned that its heartbeats stopped.
 */
export const OVERDUE_GRACE_MS = 5_000
