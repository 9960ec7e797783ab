// The projection of `errors`: a row for each failed attempt, and one for each failure of a whole run.
import type { EventOf, SessionEvent } from '../session/events.ts'
import type { ERRORS, RowOf } from './tables.ts'
import { sanitiser } from './text.ts'

/** The row of `errors` that an event makes, if any. A rejected message is none: nothing was attempted. It stands in `events`. */
export function projectError(event: SessionEvent): RowOf<typeof ERRORS> | undefined {
  switch (event.type) {
    case 'model_attempt_failed':
      return attemptRow(event, 'model', null)
    case 'tool_attempt_failed':
      return attemptRow(event, `tool:${event.tool}`, event.callId)
    case 'error_entered':
      return runRow(event)
    default:
      return undefined
  }
}

type AttemptEvent = EventOf<'model_attempt_failed' | 'tool_attempt_failed'>

function attemptRow(event: AttemptEvent, context: string, callId: string | null): RowOf<typeof ERRORS> {
  const { attempt, class: className, code = null, message, retryable, nextDelayMs = null, worker = null } = event.error
  const safe = sanitiser()
  return {
    seq: event.seq,
    run: event.run,
    turn: event.turn,
    context: safe.key(context),
    call_id: safe.key(callId),
    attempt,
    class: safe.text(className),
    code: safe.text(code),
    message: safe.text(message),
    retryable,
    next_delay_ms: nextDelayMs === null ? null : Math.round(nextDelayMs),
    worker: safe.text(worker),
    at: new Date(event.at).toISOString(),
    raw: safe.raw({ context, callId, class: className, code, message, worker }),
  }
}

function runRow(event: EventOf<'error_entered'>): RowOf<typeof ERRORS> {
  const { code, reason } = event
  const safe = sanitiser()
  return {
    seq: event.seq,
    run: event.run ?? null,
    turn: null,
    context: 'run',
    call_id: null,
    attempt: null,
    class: 'RunFailed',
    code: safe.text(code),
    message: safe.text(reason),
    retryable: event.strategy === 'automatic',
    next_delay_ms: null,
    worker: null,
    at: new Date(event.at).toISOString(),
    raw: safe.raw({ context: 'run', callId: null, class: 'RunFailed', code, message: reason, worker: null }),
  }
}
