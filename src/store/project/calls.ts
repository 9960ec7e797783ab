// The projection of `tool_calls`: makes a tool call's row from its events.
import { type EventOf, requestIdOf, type SessionEvent, type ToolCallStatus } from '../../session/events.ts'
import type { Json, JsonObject } from '../../session/json.ts'
import { abandonedApproval, approvalPatch } from './approvals.ts'
import { ABANDONED, abandonedCalls, NEVER_RESOLVED, REPEATED } from './abandoned-calls.ts'
import type { OpenCall } from './session-columns.ts'
import type { RowOf, TOOL_CALLS } from '../postgres/tables.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'
import { defined } from '../../session/defined.ts'

/** The changes that a segment's events make to one call. Null means no change. With `outcome_seq`, the whole outcome is replaced. */
export type ToolCallRecord = RowOf<typeof TOOL_CALLS>

type CallEvent = Extract<SessionEvent, { callId: string }>

/** How a call ended. */
interface Outcome {
  status: ToolCallStatus
  result?: Json
  /** `asked`: a person must resolve it. `again`: the unknown call with the same intent. */
  error?: { code: string; message: string; asked?: true; again?: string }
  effectId?: string
  replayOf?: string
  worker?: string
  blob?: string
}

/** Applies one event to the records; `open`: the newest turn's calls before it; `isOpen`: which of them have no result yet. */
export function projectCall(
  records: Map<string, ToolCallRecord>,
  event: SessionEvent,
  open: ReadonlyMap<string, OpenCall>,
  isOpen: (callId: string) => boolean,
): void {
  switch (event.type) {
    case 'tool_issued':
      issue(recordOf(records, event), event)
      noteOwnArguments(recordOf(records, event), open.get(event.callId))
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
      // A call of a failed run still has its place in the transcript, but is not executed again.
      resolve(recordOf(records, event), event, isOpen(event.callId) && open.get(event.callId)?.status !== 'unknown')
      return
    case 'tool_progress':
      noteProgress(recordOf(records, event), event)
      return
    case 'milestone_reached':
      noteMilestone(recordOf(records, event), safeKey(event.name))
      return
    case 'approval_requested':
    case 'approval_decided':
      noteApproval(recordOf(records, event), event)
      if (event.type === 'approval_decided' && event.input !== undefined) {
        noteOwnArguments(recordOf(records, event), { asked: open.get(event.callId)?.asked ?? null, isChanged: true })
      }
      return
    case 'answer_requested':
      wait(recordOf(records, event), 'awaiting_answer', event.expiresAt)
      return
    default:
      for (const [callId, call] of abandonedCalls(event, open)) abandonCall(records, event, callId, call)
  }
}

const DID_NOT_HAPPEN = { code: 'did_not_happen', message: 'It turned out later that the effect did not happen.' }

type Place = Pick<CallEvent, 'callId' | 'run' | 'turn' | 'tool' | 'at'>

function recordOf(records: Map<string, ToolCallRecord>, place: Place): ToolCallRecord {
  const known = records.get(place.callId)
  if (known) return known
  const record = newRecord(place, new Date(place.at).toISOString())
  records.set(place.callId, record)
  return record
}

function newRecord({ callId, run, turn, tool }: Place, issuedAt: string): ToolCallRecord {
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
    model_input: null,
    status: null,
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
    progress: null,
    raw_progress: null,
    waiting_until: null,
    approval: null,
    result_blob: null,
    resolved_by: null,
    note: null,
    milestones: null,
  }
}

function indexOf(callId: string): number {
  const index = Number(requestIdOf(callId).split('_')[3])
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
  setStatus(record, 'issued')
}

/** The model's own arguments, beside those that the call is executed with. */
function noteOwnArguments(record: ToolCallRecord, call: Pick<OpenCall, 'asked' | 'isChanged'> | undefined): void {
  if (call?.isChanged) record.model_input = sanitiser().json(call.asked)
}

/** A status with the end of the call's wait: only two statuses wait. */
function setStatus(record: ToolCallRecord, status: ToolCallStatus): void {
  record.status = status
  record.waiting_until = null
}

function wait(record: ToolCallRecord, status: ToolCallStatus, until: number | undefined): void {
  setStatus(record, status)
  if (until !== undefined) record.waiting_until = new Date(until).toISOString()
}

function noteProgress(record: ToolCallRecord, { value }: EventOf<'tool_progress'>): void {
  const safe = sanitiser()
  record.progress = safe.json(value)
  record.raw_progress = safe.raw(value)
}

function noteApproval(record: ToolCallRecord, event: EventOf<'approval_requested' | 'approval_decided'>): void {
  patchApproval(record, approvalPatch(event))
  if (event.type === 'approval_requested') return wait(record, 'awaiting_approval', event.expiresAt)
  // A denied call ends with the `tool_failed` that follows.
  if (!event.approved) return
  setStatus(record, 'issued')
  if (event.input === undefined) return
  const { tool, input, resolution } = event
  const safe = sanitiser()
  const key = resolution?.key ?? null
  record.input = safe.json(input)
  if (resolution) record.input_digest = resolution.inputDigest
  if (key !== null) record.idempotency_key = safe.key(key)
  safe.key(tool)
  record.raw_intent = safe.raw({ tool, key, input })
}

function patchApproval(record: ToolCallRecord, patch: JsonObject): void {
  const before = record.approval === null ? {} : (JSON.parse(String(record.approval)) as JsonObject)
  record.approval = sanitiser().json({ ...before, ...patch })
}

function resolve(record: ToolCallRecord, event: EventOf<'tool_resolved'>, isOpen: boolean): void {
  record.resolved_by = safeKey(event.decidedBy ?? event.by)
  if (event.note !== undefined) record.note = sanitiser().text(event.note)
  if (event.happened) end(record, event, { status: 'completed', ...given(event) })
  // A skip: the `tool_failed` that follows ends the call.
  else if (event.decision === 'skip') return
  // An open call that certainly did not happen is executed again. An earlier one ends as failed.
  else if (isOpen) reopen(record, event)
  else end(record, event, { status: 'failed', error: DID_NOT_HAPPEN })
}

function reopen(record: ToolCallRecord, event: EventOf<'tool_resolved'>): void {
  end(record, event, { status: 'issued' })
  record.completed_at = null
}

const REPEATED_CALL: Outcome = { status: 'unknown', error: REPEATED }

function abandonCall(records: Map<string, ToolCallRecord>, event: SessionEvent, callId: string, call: OpenCall): void {
  const { at, seq } = event
  const [, run = 0, turn = 0] = callId.split('_').map(Number)
  const record = recordOf(records, { callId, run, turn, tool: call.tool, at })
  if (call.status === 'awaiting_approval') patchApproval(record, abandonedApproval(at))
  end(record, { at, seq }, event.type === 'recovery_started' && event.strategy === 'selective' ? REPEATED_CALL : abandonedOutcome(call))
}

/** It is unknown whether the call was executed. An idempotent call counts as failed, because it can be repeated with its key. */
function abandonedOutcome({ status, effect, mayHaveBegun }: OpenCall): Outcome {
  if (status === 'awaiting_resolution') return { status: 'unknown', error: NEVER_RESOLVED }
  if (!mayHaveBegun || effect === 'read') return { status: 'skipped', error: ABANDONED }
  return { status: effect === 'external' ? 'unknown' : 'failed', error: ABANDONED }
}

/** Another attempt may reach the milestone again. */
function noteMilestone(record: ToolCallRecord, name: string): void {
  const reached = record.milestones ?? []
  if (!reached.includes(name)) record.milestones = [...reached, name]
}

function noteFailedAttempt(record: ToolCallRecord, { error }: EventOf<'tool_attempt_failed'>): void {
  setStatus(record, 'running')
  countAttempt(record, error.attempt)
  if (error.worker !== undefined) record.worker = safeKey(error.worker)
}

/** The highest number in any event, which does not depend on how the events are split into flushes. */
function countAttempt(record: ToolCallRecord, attempt: number): void {
  record.attempt = Math.max(Number(record.attempt), attempt)
}

function outcomeOf(event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>): Outcome {
  switch (event.type) {
    case 'tool_completed':
      if (event.replayOf !== undefined) return { status: 'replayed', replayOf: event.replayOf }
      return { status: 'completed', ...given(event), ...defined({ worker: event.worker }) }
    case 'tool_failed':
      return { status: statusOfFailure(event.code), error: { code: event.code, message: event.message } }
    case 'tool_unknown': {
      const { message, ask, again } = event
      // It was not executed: the unknown outcome is that of the call that it repeats.
      if (again !== undefined) return { status: 'skipped', error: { code: 'outcome_unknown', message, again } }
      return { status: 'unknown', error: { code: 'outcome_unknown', message, ...(ask && { asked: true }) } }
    }
  }
}

function statusOfFailure(code: string): ToolCallStatus {
  if (code === 'denied' || code === 'approval_expired') return 'denied'
  return code === 'skipped' ? 'skipped' : 'failed'
}

function given({ value, effectId, blob }: EventOf<'tool_completed' | 'tool_resolved'>): Pick<Outcome, 'result' | 'effectId' | 'blob'> {
  return {
    ...defined({ result: value, effectId }),
    ...(blob && { blob: blob.sha256 }),
  }
}

function end(record: ToolCallRecord, event: { at: number; seq: number } | CallEvent, outcome: Outcome): void {
  const { status, result = null, error = null, effectId = null, replayOf = null, worker = null, blob = null } = outcome
  const safe = sanitiser()
  setStatus(record, status)
  Object.assign(record, {
    result: result === null ? null : safe.json(result),
    error: error === null ? null : safe.json(error),
    effect_id: safe.key(effectId),
    replay_of: safe.key(replayOf),
    result_blob: blob,
    outcome_seq: event.seq,
    completed_at: new Date(event.at).toISOString(),
  } satisfies Partial<ToolCallRecord>)
  if (worker !== null) record.worker = safe.key(worker)
  if ('attempt' in event) countAttempt(record, event.attempt)
  if ('startedAt' in event && event.startedAt !== undefined) record.started_at = new Date(event.startedAt).toISOString()
  record.raw_outcome = safe.raw({ result, error, effectId, worker })
}
