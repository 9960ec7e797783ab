// The ledger's projection: what the events of a tool call make of its row.
import type { EventOf, SessionEvent, ToolCallStatus } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { RowOf, TOOL_CALLS } from './tables.ts'
import { safeKey, sanitiser } from './text.ts'

/** What a segment's events say of one call. Null is "nothing said": what is stored stays. With `outcome_seq` the outcome is replaced whole. */
export type ToolCallRecord = RowOf<typeof TOOL_CALLS>

type CallEvent = EventOf<'tool_issued' | 'tool_attempt_failed' | 'tool_completed' | 'tool_failed' | 'tool_unknown' | 'tool_resolved'>

/** How a call ended. */
interface Outcome {
  status: ToolCallStatus
  result?: Json
  error?: { code: string; message: string }
  effectId?: string
  replayOf?: string
  worker?: string
}

/** Applies one event to the records; `isOpen` tells whether the call's turn still waits for its result. */
export function projectCall(records: Map<string, ToolCallRecord>, event: SessionEvent, isOpen: (callId: string) => boolean): void {
  switch (event.type) {
    case 'tool_issued':
      issue(recordOf(records, event), event)
      return
    case 'tool_attempt_failed':
      noteFailedAttempt(recordOf(records, event), event)
      return
    case 'tool_completed':
    case 'tool_failed':
    case 'tool_unknown':
      end(recordOf(records, event), event, outcomeOf(event))
      return
    case 'tool_resolved':
      if (event.happened) end(recordOf(records, event), event, { status: 'completed', ...given(event) })
      // An open call that surely did not happen is executed again; an earlier one stays as it is: not done.
      else if (!isOpen(event.callId)) end(recordOf(records, event), event, { status: 'failed', error: DID_NOT_HAPPEN })
      return
    default:
      return
  }
}

const DID_NOT_HAPPEN = { code: 'did_not_happen', message: 'verify says that the effect did not happen.' }

function recordOf(records: Map<string, ToolCallRecord>, event: CallEvent): ToolCallRecord {
  const known = records.get(event.callId)
  if (known) return known
  const at = new Date(event.at).toISOString()
  const record = newRecord(event, at)
  records.set(event.callId, record)
  return record
}

function newRecord({ callId, run, turn, tool }: CallEvent, issuedAt: string): ToolCallRecord {
  return {
    call_id: safeKey(callId),
    run,
    turn,
    call_index: indexOf(callId),
    tool: safeKey(tool),
    effect: null,
    idempotency_key: null,
    input: null,
    input_digest: null,
    status: 'issued',
    attempt: 0,
    worker: null,
    result: null,
    error: null,
    effect_id: null,
    replay_of: null,
    issued_seq: null,
    outcome_seq: null,
    issued_at: issuedAt,
    started_at: null,
    completed_at: null,
    raw_intent: null,
    raw_outcome: null,
  }
}

function indexOf(callId: string): number {
  const index = Number(callId.split('_')[3])
  return Number.isSafeInteger(index) ? index : 0
}

function issue(record: ToolCallRecord, event: EventOf<'tool_issued'>): void {
  const { tool, effect, key = null, input, inputDigest } = event
  const safe = sanitiser()
  Object.assign(record, {
    call_index: event.index,
    tool: safe.key(tool),
    effect,
    idempotency_key: safe.key(key),
    input: safe.json(input),
    input_digest: inputDigest,
    issued_seq: event.seq,
    issued_at: new Date(event.at).toISOString(),
    raw_intent: safe.raw({ tool, key, input }),
  } satisfies Partial<ToolCallRecord>)
}

function noteFailedAttempt(record: ToolCallRecord, { error }: EventOf<'tool_attempt_failed'>): void {
  record.status = 'running'
  record.attempt = error.attempt
  if (error.worker !== undefined) record.worker = safeKey(error.worker)
}

function outcomeOf(event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>): Outcome {
  switch (event.type) {
    case 'tool_completed':
      if (event.replayOf !== undefined) return { status: 'replayed', replayOf: event.replayOf }
      return { status: 'completed', ...given(event), ...(event.worker !== undefined && { worker: event.worker }) }
    case 'tool_failed':
      return { status: 'failed', error: { code: event.code, message: event.message } }
    case 'tool_unknown':
      return { status: 'unknown', error: { code: 'outcome_unknown', message: event.message } }
  }
}

function given({ value, effectId }: EventOf<'tool_completed' | 'tool_resolved'>): Pick<Outcome, 'result' | 'effectId'> {
  return { ...(value !== undefined && { result: value }), ...(effectId !== undefined && { effectId }) }
}

function end(record: ToolCallRecord, event: CallEvent, outcome: Outcome): void {
  const { status, result = null, error = null, effectId = null, replayOf = null, worker = null } = outcome
  const safe = sanitiser()
  Object.assign(record, {
    status,
    result: result === null ? null : safe.json(result),
    error: error === null ? null : safe.json(error),
    effect_id: safe.key(effectId),
    replay_of: safe.key(replayOf),
    outcome_seq: event.seq,
    completed_at: new Date(event.at).toISOString(),
  } satisfies Partial<ToolCallRecord>)
  if (worker !== null) record.worker = safe.key(worker)
  if ('attempt' in event) record.attempt = event.attempt
  if (event.type === 'tool_completed' && event.startedAt !== undefined) record.started_at = new Date(event.startedAt).toISOString()
  record.raw_outcome = safe.raw({ result, error, effectId, worker })
}
