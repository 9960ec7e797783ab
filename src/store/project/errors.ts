// The projection of `errors`: a row for each failed attempt, and one for each failure of a whole run or of a checkpoint.
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { StoreError } from '../errors.ts'
import type { LateFlush } from '../store.ts'
import type { ERRORS, RowOf } from '../postgres/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'
import { counted } from '../../session/counted.ts'

/** Columns that only failures of runs have. */
const NO_INCIDENT = { incident_seq: null, ended_at: null, ended_by: null, outcome: null }

/**
 * The row of `errors` that an event makes, if any. `incident`: the first error of the incident before the event. A rejected message makes none,
 * because nothing was attempted; it is in `events`.
 */
export function projectError(event: SessionEvent, incident: number | null): RowOf<typeof ERRORS> | undefined {
  switch (event.type) {
    case 'model_attempt_failed':
      return attemptRow(event, event.purpose === 'compaction' ? 'compaction' : 'model', null)
    case 'tool_attempt_failed':
      return attemptRow(event, `tool:${event.tool}`, event.callId)
    case 'compaction_failed':
      return compactionRow(event)
    case 'content_replaced':
      return replacedRow(event)
    case 'error_entered':
      return runRow(event, incident)
    default:
      return undefined
  }
}

type AttemptEvent = EventOf<'model_attempt_failed' | 'tool_attempt_failed'>

function attemptRow(event: AttemptEvent, context: string, callId: string | null): RowOf<typeof ERRORS> {
  const {
    attempt,
    class: className,
    code = null,
    message,
    stack = null,
    retryable,
    nextDelayMs = null,
    worker = null,
    model = null,
    phase,
  } = event.error
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
    stack: safe.text(stack),
    retryable,
    next_delay_ms: nextDelayMs === null ? null : Math.round(nextDelayMs),
    worker: safe.text(worker),
    model: safe.text(model),
    phase: phase ?? null,
    ...NO_INCIDENT,
    at: new Date(event.at).toISOString(),
    raw: safe.raw({ context, callId, class: className, code, message, stack, worker, model }),
  }
}

/** The columns of a failure that is not one of an attempt. */
const NO_ATTEMPT = { attempt: null, stack: null, next_delay_ms: null, worker: null, model: null, phase: null, ...NO_INCIDENT }

function runRow(event: EventOf<'error_entered'>, incident: number | null): RowOf<typeof ERRORS> {
  const { code, reason } = event
  const safe = sanitiser()
  return {
    seq: event.seq,
    run: event.run ?? null,
    turn: event.turn ?? null,
    context: 'run',
    call_id: null,
    class: 'RunFailed',
    code: safe.text(code),
    message: safe.text(reason),
    retryable: event.strategy === 'automatic',
    ...NO_ATTEMPT,
    incident_seq: incident ?? event.seq,
    at: new Date(event.at).toISOString(),
    raw: safe.raw({ context: 'run', callId: null, class: 'RunFailed', code, message: reason, stack: null, worker: null, model: null }),
  }
}

/** pawl retries the compaction when the conversation has grown. */
function compactionRow(event: EventOf<'compaction_failed'>): RowOf<typeof ERRORS> {
  return mishapRow(event, { context: 'compaction', class: 'CompactionFailed', code: event.code, message: event.reason })
}

/** The session has continued without the content. */
function replacedRow(event: EventOf<'content_replaced'>): RowOf<typeof ERRORS> {
  const parts = event.content.map(({ kind, seq }) => `${kind} of event ${seq}`).join(', ')
  const message = `The model sees a note in place of what its provider refuses (${parts}): ${event.reason}`
  return mishapRow(event, { context: 'model', class: 'ContentReplaced', code: 'content_replaced', message })
}

/** A checkpoint that could not be written. */
export interface CheckpointFailure {
  event: EventOf<'checkpoint_made'>
  error: StoreError
}

/** The row of a checkpoint that could not be written: the next one covers it. */
export function checkpointErrorRow({ event, error }: CheckpointFailure): RowOf<typeof ERRORS> {
  return mishapRow(event, {
    context: 'checkpoint',
    class: error.name,
    code: error.code,
    message: `Checkpoint ${event.version} was not written: ${error.message}`,
  })
}

/** The row for a checkpoint that was written late. */
export function lateCheckpointRow(event: EventOf<'checkpoint_made'>, late: LateFlush): RowOf<typeof ERRORS> {
  const message = `Checkpoint ${event.version} was written late: ${counted(late.attempts, 'attempt')} failed since ${late.since.toISOString()}: ${late.message}`
  return mishapRow(event, { context: 'checkpoint', class: 'LateCheckpoint', code: late.code, message })
}

/** A row for a failure that is neither an attempt's nor a run's. */
function mishapRow(
  { seq, run, turn, at }: EventOf<'checkpoint_made' | 'compaction_failed' | 'content_replaced'>,
  failure: { context: 'checkpoint' | 'compaction' | 'model'; class: string; code: string; message: string },
): RowOf<typeof ERRORS> {
  const safe = sanitiser()
  return {
    seq,
    run: run ?? null,
    turn: turn ?? null,
    context: failure.context,
    call_id: null,
    class: safe.text(failure.class),
    code: safe.text(failure.code),
    message: safe.text(failure.message),
    retryable: true,
    ...NO_ATTEMPT,
    at: new Date(at).toISOString(),
    raw: safe.raw({ callId: null, ...failure, stack: null, worker: null, model: null }),
  }
}
