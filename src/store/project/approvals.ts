// The projection of `approvals`: requests for approval and their decisions.
import type { EventOf, SessionEvent } from '../../session/events.ts'
import { defined } from '../../session/defined.ts'
import type { JsonObject } from '../../session/json.ts'
import { abandonedCalls, type TurnCall } from '../../session/past/call-status.ts'
import { ABANDONED } from './abandoned-calls.ts'
import type { APPROVALS, DECISIONS, RowOf } from '../postgres/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'

type DecisionEvent = EventOf<'approval_decided'>

/** The rows of approvals that events make. */
export interface ApprovalRows {
  requests: RowOf<typeof APPROVALS>[]
  /** Decisions on stored requests. */
  decisions: RowOf<typeof DECISIONS>[]
}

/** Applies one event to the rows; `open` are the newest turn's calls as they were before it. */
export function projectApproval(rows: ApprovalRows, event: SessionEvent, open: ReadonlyMap<string, TurnCall>): void {
  // A hook has changed the arguments that a person entered, so the next request is for another approval.
  if (event.type === 'tool_issued' && open.get(event.callId)?.status === 'awaiting_approval') {
    decide(rows, decisionRow({ callId: event.callId, at: event.at }, SUPERSEDED))
  }
  if (event.type === 'approval_requested') rows.requests.push(requestRow(event))
  if (event.type === 'approval_decided') {
    const decision = decisionRow(event, verdictOf(event))
    const { reason: _, ...unasked } = event
    // A rule approves calls that nobody was asked about, too.
    if (event.rule !== undefined && open.get(event.callId)?.status !== 'awaiting_approval')
      rows.requests.push({ ...requestRow(unasked), ...decision })
    else decide(rows, decision)
  }
  for (const [callId, { status }] of abandonedCalls(event, open)) {
    if (status === 'awaiting_approval') decide(rows, decisionRow({ callId, at: event.at }, ABANDONED.code))
  }
}

const SUPERSEDED = 'superseded'

function decide(rows: ApprovalRows, decision: RowOf<typeof DECISIONS>): void {
  const request = rows.requests.findLast((row) => row.call_id === decision.call_id && row.status === 'requested')
  if (request) Object.assign(request, decision)
  else rows.decisions.push(decision)
}

/** How an event changes the column `approval` of its call. */
export function approvalPatch(event: EventOf<'approval_requested'> | DecisionEvent): JsonObject {
  if (event.type === 'approval_requested') {
    const { digest, reason = null, approvers = null, at, expiresAt, onExpiry } = event
    const terms = {
      digest,
      reason,
      approvers: approvers && { ...approvers },
      requestedAt: isoOf(at),
      expiresAt: isoOf(expiresAt),
      onExpiry,
    }
    return { ...terms, decision: null, decidedAt: null, decidedBy: null, note: null, edited: false }
  }
  const { at, by = null, note = null, input, rule } = event
  const decided = { decision: verdictOf(event), decidedAt: isoOf(at), decidedBy: by, note, edited: input !== undefined }
  return { ...decided, ...defined({ rule }) }
}

/** How that column changes if the run ends before a decision. */
export function abandonedApproval(at: number): JsonObject {
  return { decision: ABANDONED.code, decidedAt: isoOf(at) }
}

function verdictOf({ approved, expired }: DecisionEvent): string {
  if (expired) return 'expired'
  return approved ? 'approved' : 'denied'
}

const isoOf = (at: number): string => new Date(at).toISOString()

type RequestFacts = Pick<DecisionEvent, 'callId' | 'seq' | 'tool' | 'run' | 'turn' | 'digest' | 'at'> &
  Partial<Pick<EventOf<'approval_requested'>, 'reason' | 'approvers' | 'expiresAt'>>

function requestRow(event: RequestFacts): RowOf<typeof APPROVALS> {
  const { callId, seq, tool, run, turn, digest, reason = null, approvers, at, expiresAt } = event
  const safe = sanitiser()
  return {
    call_id: safe.key(callId),
    seq,
    tool: safe.key(tool),
    run,
    turn,
    digest: safe.key(digest),
    reason: safe.text(reason),
    role: approvers ? safe.key(approvers.role) : null,
    status: 'requested',
    requested_at: isoOf(at),
    expires_at: expiresAt === undefined ? null : isoOf(expiresAt),
    decided_at: null,
    decided_by: null,
    note: null,
    rule: null,
    raw: safe.raw({ tool, reason }),
    raw_decision: null,
  }
}

function decisionRow(decision: Pick<DecisionEvent, 'callId' | 'at' | 'by' | 'note' | 'rule'>, status: string): RowOf<typeof DECISIONS> {
  const { callId, at, by = null, note = null, rule } = decision
  const safe = sanitiser()
  return {
    call_id: sanitiser().key(callId),
    status,
    decided_at: isoOf(at),
    decided_by: safe.text(by),
    note: safe.text(note),
    rule: rule === undefined ? null : safe.key(rule),
    raw_decision: safe.raw({ decidedBy: by, note }),
  }
}
