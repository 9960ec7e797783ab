// The deadline of a model call. It uses durations only, because this machine's clock may differ from the server's.
import type { AskModelInput } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import { TOO_LATE } from '../../session/deadlines.ts'
import { LONGEST_MS } from '../../session/duration.ts'

/** The earliest of the deadlines that bound a model call. */
export interface CallDeadline {
  /** Milliseconds until the deadline; infinity without one. */
  leftMs(): number
  /** Why the run fails at the deadline. */
  reason: string
}

/** Starts counting now. `agent` is this worker's build, even if the session knows another build's. */
export function startDeadline({ limits, sessionLimits }: Agent, { runMs, sessionMs, leftMs }: AskModelInput): CallDeadline {
  const since = performance.now()
  let first = { leftMs: Number.POSITIVE_INFINITY, reason: '' }
  const consider = (left: number, reason: string): void => {
    if (left < first.leftMs) first = { leftMs: left, reason }
  }
  if (limits.deadlineMs !== undefined) consider(limits.deadlineMs - runMs, TOO_LATE.run(limits.deadlineMs))
  if (leftMs !== undefined) consider(leftMs, TOO_LATE.message)
  if (sessionLimits.deadlineMs !== undefined) consider(sessionLimits.deadlineMs - sessionMs, TOO_LATE.session(sessionLimits.deadlineMs))
  return { reason: first.reason, leftMs: () => Math.ceil(first.leftMs - (performance.now() - since)) }
}

export interface DeadlineSignal {
  signal: AbortSignal
  /** Call this when the model call has ended. */
  end(): void
}

/** Aborts with `stop`, and at the deadline. */
export function signalUntil(deadline: CallDeadline, stop: AbortSignal): DeadlineSignal {
  const leftMs = deadline.leftMs()
  if (!Number.isFinite(leftMs)) return { signal: stop, end: () => undefined }
  // Not AbortSignal.timeout: as a source of AbortSignal.any, it may be garbage-collected before it aborts.
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), Math.min(leftMs, LONGEST_MS))
  return { signal: AbortSignal.any([late.signal, stop]), end: () => clearTimeout(timer) }
}
