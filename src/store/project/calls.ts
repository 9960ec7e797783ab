// The projection of `tool_calls`: makes a tool call's row from its events.
import type { EventOf, SessionEvent } from '../../session/events.ts'
import { requestIdOf } from '../../session/ids.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import type { JsonObject } from '../../session/json.ts'
import {
  abandonedAs,
  abandonedCalls,
  madeAgain,
  type KnownOutcome,
  outcomeIn,
  statusAfter,
  type TurnCall,
} from '../../session/past/call-status.ts'
import { abandonedApproval, approvalPatch } from './approvals.ts'
import { ABANDONED, REPEATED, STILL_UNRESOLVED } from './abandoned-calls.ts'
import type { RowOf, TOOL_CALLS } from '../postgres/tables.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'

/** The changes that a segment's events make to one call. Null means no change. With `outcome_seq`, the whole outcome is replaced. */
type ToolCallRecord = RowOf<typeof TOOL_CALLS>

type CallEvent = Extract<SessionEvent, { callId: string }>

/** Applies one event to the records; `calls`: those of the newest answer before it. */
export function projectCall(records: Map<string, ToolCallRecord>, event: SessionEvent, calls: ReadonlyMap<string, TurnCall>): void {
  switch (event.type) {
    case 'tool_issued':
      issue(recordOf(records, event), event)
      noteOwnArguments(recordOf(records, event), calls.get(event.callId))
      return
    case 'tool_attempt_failed':
      noteFailedAttempt(recordOf(records, event), event)
      return
    case 'tool_resolved':
      noteReportedOutcome(recordOf(records, event), event)
      endCall(recordOf(records, event), event, calls.get(event.callId)?.status)
      return
    case 'tool_completed':
    case 'tool_failed':
    case 'tool_unknown':
      endCall(recordOf(records, event), event, calls.get(event.callId)?.status)
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
        noteOwnArguments(recordOf(records, event), { asked: calls.get(event.callId)?.asked ?? null, isChanged: true })
      }
      return
    case 'answer_requested':
      noteQuestion(recordOf(records, event), event)
      return
    case 'sleep_started':
      wait(recordOf(records, event), 'asleep', event.expiresAt)
      return
    case 'answer_received':
      if (event.reply) setStatus(recordOf(records, event), 'issued')
      else if (event.by !== undefined) recordOf(records, event).resolved_by = safeKey(event.by)
      return
    default:
      for (const [callId, call] of abandonedCalls(event, calls)) abandonCall(records, event, callId, call)
  }
}

type CallRef = Pick<CallEvent, 'callId' | 'run' | 'turn' | 'tool' | 'at'>

function recordOf(records: Map<string, ToolCallRecord>, place: CallRef): ToolCallRecord {
  const known = records.get(place.callId)
  if (known) return known
  const record = newRecord(place, new Date(place.at).toISOString())
  records.set(place.callId, record)
  return record
}

function newRecord({ callId, run, turn, tool }: CallRef, issuedAt: string): ToolCallRecord {
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
    recorded_attempt: 0,
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
    question: null,
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

/** The model's own arguments, alongside those that the call is executed with. */
function noteOwnArguments(record: ToolCallRecord, call: Pick<TurnCall, 'asked' | 'isChanged'> | undefined): void {
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

function noteQuestion(record: ToolCallRecord, { asks, expiresAt, at, child }: EventOf<'answer_requested'>): void {
  // Another session works on the call: nobody has to answer it.
  if (child) return
  wait(record, 'awaiting_answer', expiresAt)
  if (!asks) return
  const { question, digest, attempt } = asks
  record.question = sanitiser().json({ ...question, digest, askedAt: new Date(at).toISOString() } as JsonObject)
  countAttempt(record, attempt)
}

function noteReportedOutcome(record: ToolCallRecord, event: EventOf<'tool_resolved'>): void {
  record.resolved_by = safeKey(event.decidedBy ?? event.by)
  if (event.note !== undefined) record.note = sanitiser().text(event.note)
}

/** `now`: the call's status before the event. */
function endCall(record: ToolCallRecord, event: CallEvent, now: TurnCall['status'] | undefined): void {
  const outcome = outcomeIn(event, now)
  if (outcome) return end(record, event, outcome)
  // An open call that certainly did not happen is executed again.
  if (event.type !== 'tool_resolved' || event.happened || statusAfter(event, now) !== 'issued') return
  end(record, event, { status: 'issued' })
  record.completed_at = null
}

function abandonCall(records: Map<string, ToolCallRecord>, event: SessionEvent, callId: string, call: TurnCall): void {
  const { at, seq } = event
  const [, run = 0, turn = 0] = callId.split('_').map(Number)
  const record = recordOf(records, { callId, run, turn, tool: call.tool, at })
  if (call.status === 'awaiting_approval') patchApproval(record, abandonedApproval(at))
  end(record, { at, seq }, madeAgain(event).has(callId) ? { status: 'unknown', error: REPEATED } : abandonedOutcome(call))
}

function abandonedOutcome(call: TurnCall): KnownOutcome {
  const as = abandonedAs(call)
  return { status: as === 'never_ran' ? 'skipped' : as, error: call.status === 'awaiting_resolution' ? STILL_UNRESOLVED : ABANDONED }
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
  record.attempt = record.recorded_attempt = Math.max(Number(record.attempt), attempt)
}

function end(
  record: ToolCallRecord,
  event: { at: number; seq: number } | CallEvent,
  outcome: Omit<KnownOutcome, 'status'> & { status: ToolCallStatus },
): void {
  const { status, result: given = {}, error = null, replayOf = null } = outcome
  const { value: result = null, effectId = null, worker = null, blob } = given
  const safe = sanitiser()
  setStatus(record, status)
  Object.assign(record, {
    result: result === null ? null : safe.json(result),
    error: error === null ? null : safe.json({ ...error }),
    effect_id: safe.key(effectId),
    replay_of: safe.key(replayOf),
    result_blob: blob?.sha256 ?? null,
    outcome_seq: event.seq,
    completed_at: new Date(event.at).toISOString(),
  } satisfies Partial<ToolCallRecord>)
  if (worker !== null) record.worker = safe.key(worker)
  if ('attempt' in event) countAttempt(record, event.attempt)
  if ('startedAt' in event && event.startedAt !== undefined) record.started_at = new Date(event.startedAt).toISOString()
  record.raw_outcome = safe.raw({ result, error: error && { ...error }, effectId, worker })
}
