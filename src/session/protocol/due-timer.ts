// The names of the timers of scheduled messages, by which the raw history of an execution shows which messages it has delivered.
import { shortHash } from '../digest.ts'

const BEFORE = 'message due: '

/** The summary of the timer for a message. It does not show the id, which a user may have chosen. */
export function dueSummary(messageId: string): string {
  return `${BEFORE}${shortHash(messageId)}`
}

/** The hash of the message's id; undefined for any other timer. */
export function dueHashIn(summary: unknown): string | undefined {
  return typeof summary === 'string' && summary.startsWith(BEFORE) ? summary.slice(BEFORE.length) : undefined
}
