// The projections: make the store's rows from a session's events. Pure, so that flushes and rebuilds share them.
import { usageColumns } from '../postgres/columns.ts'
import type { EventOf, SessionEvent } from '../../session/events.ts'
import { addToCalls } from '../../session/past/call-status.ts'
import { type PaidCall, paidCallIn } from '../../session/spending/paid-call.ts'
import { removesTurns } from '../../session/recovery/recovery.ts'
import { spentBy } from '../../session/spending/budget.ts'
import { costOf, providerOf } from '../../session/spending/prices.ts'
import { projectRule, type RuleRows } from './approval-rules.ts'
import { type ApprovalRows, projectApproval } from './approvals.ts'
import { projectCall } from './calls.ts'
import { projectError } from './errors.ts'
import { endingsOf, type ErrorEnd, errorEndOf, laterEnd, NOT_ENDED } from './incidents.ts'
import { growTranscript, type MessageProjection, type MessageRows, newMessageProjection, projectMessages } from './messages.ts'
import { projectRecovery, type RecoveryRows } from './recoveries.ts'
import { applyToSession, asInherited, type SessionColumns } from './session-columns.ts'
import type { Ending } from '../rows.ts'
import type { CUSTOM_EVENTS, ERRORS, RowOf, SPEND, TOKEN_USAGE, TOOL_CALLS } from '../postgres/tables.ts'
import { customEventRow } from './custom-events.ts'
import { safeKey } from '../postgres/sanitise.ts'

/** The state that projecting an event needs. */
export interface Projection extends MessageProjection {
  session: SessionColumns
}

/** The rows that a segment of events makes. */
export interface ProjectedRows extends MessageRows, ApprovalRows, RuleRows, RecoveryRows {
  toolCalls: Map<string, RowOf<typeof TOOL_CALLS>>
  errors: RowOf<typeof ERRORS>[]
  usage: RowOf<typeof TOKEN_USAGE>[]
  spend: RowOf<typeof SPEND>[]
  customEvents: RowOf<typeof CUSTOM_EVENTS>[]
  /** The end of the stored errors that have no outcome yet. */
  errorEnd: ErrorEnd | null
  /** What ended with the events, for metrics. */
  endings: Ending[]
  /** Set if the segment's last event archives rows; applied after the rows above. */
  move: Move | null
}

/** An event that archives rows of earlier events, and the newest run at that point. */
export interface Move {
  event: ArchivingEvent
  run: number
}

type ArchivingEvent = EventOf<'recovery_started' | 'rolled_back' | 'session_started' | 'forked' | 'messages_unscheduled'>

/** A projection of only the events that `session` was folded from. */
export function newProjection(session: SessionColumns): Projection {
  return { session, ...newMessageProjection() }
}

/** Adds stored events to a projection: those of the open turn, or of one that is reopened, and results that are replayed. */
export function preload(projection: Projection, events: Iterable<SessionEvent>): void {
  for (const event of events) {
    try {
      growTranscript(projection, event)
      addToCalls(projection.session.calls, event)
    } catch {
      // This event has no rows either; `events.adjusted` says why.
    }
  }
}

/** Returns no rows, because these events have none: the session stays as it was before them. */
export function skipEvents({ session }: Projection, events: Iterable<SessionEvent>): ProjectedRows {
  for (const { at } of events) session.updatedAt = at
  return noRows()
}

/**
 * Splits events into segments that one statement can apply: at most `maxBytes` of JSON (or one event), and ending at each event that
 * archives rows, because one statement cannot change a row twice.
 */
export function segmentsOf<E extends { event: SessionEvent; json: string }>(entries: readonly E[], maxBytes: number): E[][] {
  const segments: E[][] = []
  let segment: E[] = []
  let bytes = 0
  for (const entry of entries) {
    segment.push(entry)
    bytes += entry.json.length
    if (bytes >= maxBytes || archives(entry.event)) {
      segments.push(segment)
      segment = []
      bytes = 0
    }
  }
  if (segment.length > 0) segments.push(segment)
  return segments
}

/** The rows of one segment; the projection is changed in place. `inherited`: another session's past, which does not count in sums. */
export function project(projection: Projection, events: Iterable<SessionEvent>, inherited: boolean): ProjectedRows {
  const rows = noRows()
  for (const event of events) {
    if (archives(event)) rows.move = { event, run: projection.session.run }
    if (!inherited) projectCounted(projection, rows, event)
    projectMessages(projection, rows, event)
    applyToSession(projection.session, event)
  }
  if (inherited) asInherited(projection.session)
  return rows
}

function noRows(): ProjectedRows {
  return {
    messages: [],
    taken: [],
    delivered: [],
    toolCalls: new Map(),
    errors: [],
    usage: [],
    spend: [],
    customEvents: [],
    errorEnd: null,
    endings: [],
    requests: [],
    decisions: [],
    rules: [],
    revokedRules: [],
    recoveries: [],
    outcome: null,
    move: null,
  }
}

/** Adds the rows that count in sums over sessions. */
function projectCounted(projection: Projection, rows: ProjectedRows, event: SessionEvent): void {
  projectCall(rows.toolCalls, event, projection.session.calls)
  projectApproval(rows, event, projection.session.calls)
  projectRule(rows, event)
  endErrors(rows, errorEndOf(projection.session, event))
  rows.endings.push(...endingsOf(projection.session, event))
  const error = projectError(event, projection.session.incident?.seq ?? null)
  if (error) rows.errors.push(error)
  projectRecovery(rows, event, projection.session.error)
  const spent = paidCallIn(event)
  if (spent) rows.usage.push(usageRow(event as EventOf<'model_completed' | 'compacted'>, spent))
  // What a child has spent has rows in the child.
  const usd = event.type === 'spent' && event.child ? 0 : (spentBy(event)?.usd ?? 0)
  if (usd > 0) rows.spend.push({ seq: event.seq, at: new Date(event.at).toISOString(), usd })
  if (event.type === 'emitted') rows.customEvents.push(customEventRow(event))
}

/** Fills in the rows of the errors that have ended: those of earlier segments, too. */
function endErrors(rows: ProjectedRows, end: ErrorEnd | null): void {
  if (!end) return
  const open = rows.errors.filter((row) => row.context === 'run' && row.outcome === null)
  for (const row of open) Object.assign(row, laterEnd(row as unknown as ErrorEnd, end))
  // An error of this segment has ended those of earlier ones.
  const own = rows.errors.some((row) => row.context === 'run')
  if (!own) rows.errorEnd = laterEnd(rows.errorEnd ?? NOT_ENDED, end)
}

/** Calls whose results the events replay without including them. */
export function replayedCalls(events: Iterable<SessionEvent>): string[] {
  const calls = new Set<string>()
  for (const event of events) if (event.type === 'tool_completed' && event.replayOf !== undefined) calls.add(event.replayOf)
  return [...calls]
}

/** Whether the event archives messages. */
function archives(event: SessionEvent): event is ArchivingEvent {
  if (event.type === 'recovery_started') return removesTurns(event) || event.strategy === 'selective'
  if (event.type === 'session_started') return event.after !== undefined
  return event.type === 'rolled_back' || event.type === 'forked' || event.type === 'messages_unscheduled'
}

function usageRow({ seq, run, turn }: EventOf<'model_completed' | 'compacted'>, spent: PaidCall): ProjectedRows['usage'][number] {
  const { model, usage, at, purpose = null } = spent
  const cost = costOf(spent)
  const provider = providerOf(spent)
  return {
    seq,
    run,
    turn,
    purpose,
    model: safeKey(model),
    provider: provider === null ? null : safeKey(provider),
    ...usageColumns(usage),
    usd: cost?.usd ?? null,
    price_date: cost?.since ?? null,
    at: new Date(at).toISOString(),
  }
}
