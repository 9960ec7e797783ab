// The time by which a run must have ended: the agent's limit, a message's deadline, or the session's deadline.
import { LONGEST_MS } from './duration.ts'
import { numberText } from './number-text.ts'
import type { QueuedMessage, RunState, SessionState } from './state.ts'

/** A moment by which a run must have ended. The name identifies it, because its time may differ on a replay. */
export interface Deadline {
  name: string
  /** Milliseconds since 1970. */
  at: number
  /** Why a run fails that is still in progress then. */
  reason: string
}

/** Why a run fails at each kind of deadline. */
export const TOO_LATE = {
  run: (limitMs: number): string => `The run took longer than its limit of ${numberText(limitMs)} ms (limits.deadline).`,
  message: "The run did not finish before its message's deadline.",
  session: (limitMs: number): string => `The session is older than its limit of ${numberText(limitMs)} ms (sessionLimits.deadline).`,
} as const

/** How many queued messages are watched at a time. Each one costs a timer in each execution. */
const WATCHED = 20

/** When the run's time began, plus the time for which it was paused. An automatic restart grants no extra time. */
export function countsFrom({ since, startedAt, pausedMs = 0 }: RunState): number {
  return (since ?? startedAt) + pausedMs
}

/** The deadlines of a run, as far as they are known. */
export function deadlinesOf({ createdAt, facts }: SessionState, run: RunState): Deadline[] {
  const { limits, deadline } = run
  const deadlines: Deadline[] = []
  if (limits?.deadlineMs !== undefined) {
    const { deadlineMs } = limits
    deadlines.push({ name: `deadline ${run.run} ${deadlineMs}`, at: countsFrom(run) + deadlineMs, reason: TOO_LATE.run(deadlineMs) })
  }
  if (deadline) deadlines.push(ofMessage(deadline.seq, deadline.at))
  // Like its own limits, a run gets the session's limits from the worker that serves it, because an outdated limit must not end the run.
  const sessionMs = limits && facts?.sessionLimits?.deadlineMs
  if (sessionMs !== undefined) {
    deadlines.push({ name: `deadline of the session ${sessionMs}`, at: createdAt + sessionMs, reason: TOO_LATE.session(sessionMs) })
  }
  return deadlines
}

/** The deadlines of messages that no turn has accepted. */
export function deadlinesInInbox({ inbox }: SessionState): Deadline[] {
  return inbox.flatMap((message) => deadlineOf(message) ?? []).slice(0, WATCHED)
}

/** The deadline that a message was sent with. */
export function deadlineOf({ seq = 0, deadlineAt }: QueuedMessage): Deadline | undefined {
  return deadlineAt === undefined ? undefined : ofMessage(seq, deadlineAt)
}

function ofMessage(seq: number, at: number): Deadline {
  return { name: `deadline of message ${seq}`, at, reason: TOO_LATE.message }
}

/** Whether a client may send a message with this deadline, in milliseconds. */
export function isDeadlineMs(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= LONGEST_MS
}
