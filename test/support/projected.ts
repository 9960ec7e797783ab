// The rows that a session's events must have in the side store, made by the pure projections in one pass, table by table.
import { createHash } from 'node:crypto'
import type { SessionEvent } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import { removesTurns } from '../../src/session/recovery/recovery.ts'
import type { Json } from '../../src/session/json.ts'
import { STATE_VERSION } from '../../src/session/fold/state-versions.ts'
import type { SessionState } from '../../src/session/state.ts'
import { abandonedApproval } from '../../src/store/project/approvals.ts'
import { ABANDONED, NEVER_RESOLVED, UNDONE } from '../../src/store/project/abandoned-calls.ts'
import { type ErrorEnd, laterEnd } from '../../src/store/project/incidents.ts'
import { type Move, newProjection, project, type Projection, type ProjectedRows, segmentsOf } from '../../src/store/project/projections.ts'
import { WITH_OUTCOME } from '../../src/store/project/recoveries.ts'
import { newSessionColumns, waitingCalls } from '../../src/store/project/session-columns.ts'
import {
  APPROVALS,
  type Columns,
  CUSTOM_EVENTS,
  ERRORS,
  EVENTS,
  MESSAGES,
  RECOVERIES,
  SPEND,
  TOKEN_USAGE,
  TOOL_CALLS,
} from '../../src/store/postgres/tables.ts'
import { safeKey } from '../../src/store/postgres/sanitise.ts'

/** A row as plain values: numbers, texts, parsed JSON; times in milliseconds since 1970. */
export type PlainRow = Record<string, unknown>

/** A stored event: its text and the columns beside it. */
export interface StoredText {
  epoch: string
  digest: string
  json: string
}

/** The rows of each table, in no particular order. */
export type PlainTables = Record<(typeof TABLES)[number], PlainRow[]>

const CHECKPOINTS = {
  version: 'integer',
  run: 'integer',
  turn: 'integer',
  seq: 'bigint',
  up_to_seq: 'bigint',
  last_message_id: 'text',
  reasons: 'text[]',
  by: 'text',
  /** JSON text, whatever the order of its keys. */
  state: 'jsonb',
  state_version: 'integer',
  created_at: 'timestamptz',
  plan: 'jsonb',
  spent_tokens: 'bigint',
  spent_usd: 'numeric',
  archived_seq: 'bigint',
} as const satisfies Columns

const SESSIONS = {
  agent: 'text',
  status: 'text',
  epoch: 'text',
  flushed_seq: 'bigint',
  digest: 'text',
  run: 'integer',
  current_run: 'integer',
  turns: 'integer',
  open_seq: 'bigint',
  error: 'jsonb',
  incident: 'jsonb',
  plan: 'jsonb',
  paused: 'jsonb',
  input_tokens: 'bigint',
  output_tokens: 'bigint',
  cache_creation_input_tokens: 'bigint',
  cache_read_input_tokens: 'bigint',
  usd: 'numeric',
  model: 'text',
  provider: 'text',
  checkpoint: 'integer',
  waiting: 'integer',
  parent: 'text',
  forked_seq: 'bigint',
  updated_at: 'timestamptz',
} as const satisfies Columns

const SUMS = {
  calls: 'integer',
  priced: 'integer',
  usd: 'numeric',
  input_tokens: 'bigint',
  output_tokens: 'bigint',
  cache_creation_input_tokens: 'bigint',
  cache_read_input_tokens: 'bigint',
} as const satisfies Columns

/** The columns that events determine, by table. */
export const COLUMNS = {
  events: EVENTS,
  messages: MESSAGES,
  archived_messages: { ...MESSAGES, epoch: 'text', archived_seq: 'bigint', why: 'text' },
  tool_calls: TOOL_CALLS,
  errors: ERRORS,
  token_usage: TOKEN_USAGE,
  spend: SPEND,
  usage_by_day: { day: 'date', model: 'text', ...SUMS },
  usage_by_session: SUMS,
  approvals: APPROVALS,
  custom_events: CUSTOM_EVENTS,
  recoveries: RECOVERIES,
  checkpoints: CHECKPOINTS,
  sessions: SESSIONS,
} as const satisfies Record<string, Columns>

/** Tables whose rows events determine. */
export const TABLES = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[]

/** The rows of a session whose whole past is `stored`. */
export function projectedTables(stored: readonly StoredText[]): PlainTables {
  const entries = stored.map(({ epoch, digest, json }) => ({ epoch, digest, json, event: JSON.parse(json) as SessionEvent }))
  const events = entries.map((entry) => entry.event)
  const epochs = new Map(entries.map(({ event, epoch }) => [event.seq, epoch]))
  const forkedAt = events.findLast((event) => event.type === 'forked')?.seq ?? 0
  const projection = newProjection(newSessionColumns())
  const kept = newKept()
  for (const segment of segmentsOf(entries, Number.POSITIVE_INFINITY)) {
    const rows = project(
      projection,
      segment.map((entry) => entry.event),
      (segment.at(-1)?.event.seq ?? 0) <= forkedAt,
    )
    keep(kept, rows)
    if (rows.move) move(kept, rows.move, epochs)
  }
  const head = entries.at(-1)
  return {
    events: entries.map(({ event, epoch, digest, json }) => plain(EVENTS, eventRow(event, epoch, digest, json))),
    messages: kept.messages,
    archived_messages: kept.archived,
    tool_calls: [...kept.calls.values()],
    errors: kept.errors,
    token_usage: kept.usage,
    spend: kept.spend,
    usage_by_day: usageBy(kept.usage, ({ at, model }) => ({ day: new Date(Number(at)).toISOString().slice(0, 10), model })),
    usage_by_session: usageBy(kept.usage, () => ({})),
    approvals: kept.approvals,
    custom_events: kept.customEvents,
    recoveries: kept.recoveries,
    checkpoints: checkpointRows(events),
    sessions: head ? [sessionRow(projection, agentOf(events), head)] : [],
  }
}

/** A row of the projections, or of the database, as plain values. */
export function plain(columns: Columns, row: Record<string, unknown>): PlainRow {
  return Object.fromEntries(Object.entries(columns).map(([name, type]) => [name, plainValue(type, row[name] ?? null)]))
}

function plainValue(type: Columns[string], value: unknown): unknown {
  if (value === null) return null
  if (type === 'bigint' || type === 'integer' || type === 'numeric') return Number(value)
  if (type === 'timestamptz') return new Date(String(value)).getTime()
  if (type === 'jsonb') return typeof value === 'string' ? (JSON.parse(value) as unknown) : value
  return value
}

/** The rows so far. */
interface KeptRows {
  messages: PlainRow[]
  archived: PlainRow[]
  calls: Map<string, PlainRow>
  errors: PlainRow[]
  usage: PlainRow[]
  approvals: PlainRow[]
  customEvents: PlainRow[]
  spend: PlainRow[]
  recoveries: PlainRow[]
}

const newKept = (): KeptRows => ({
  messages: [],
  archived: [],
  calls: new Map(),
  errors: [],
  usage: [],
  approvals: [],
  customEvents: [],
  spend: [],
  recoveries: [],
})

function keep(kept: KeptRows, rows: ProjectedRows): void {
  const delivered = new Set(rows.delivered.map((row) => row.message_id))
  kept.messages = kept.messages.filter((row) => row.kind !== 'scheduled' || !delivered.has(String(row.message_id)))
  kept.messages.push(...rows.messages.map((row) => plain(MESSAGES, row)))
  for (const { message_id, ...place } of rows.taken) {
    const waiting = kept.messages.find((row) => row.kind === 'user' && row.run === null && row.message_id === message_id)
    Object.assign(waiting ?? {}, place)
  }
  for (const row of rows.toolCalls.values()) keepCall(kept.calls, plain(TOOL_CALLS, row))
  for (const row of kept.errors) {
    if (!rows.errorEnd || row.context !== 'run' || row.outcome !== null) continue
    const { ended_at: at, ...end } = rows.errorEnd
    Object.assign(row, laterEnd(row as unknown as ErrorEnd, { ...end, ended_at: at && (new Date(at).getTime() as unknown as string) }))
  }
  kept.errors.push(...rows.errors.map((row) => plain(ERRORS, row)))
  kept.usage.push(...rows.usage.map((row) => plain(TOKEN_USAGE, row)))
  kept.spend.push(...rows.spend.map((row) => plain(SPEND, row)))
  kept.customEvents.push(...rows.customEvents.map((row) => plain(CUSTOM_EVENTS, row)))
  kept.approvals.push(...rows.requests.map((row) => plain(APPROVALS, row)))
  for (const { call_id, ...decision } of rows.decisions) {
    const asked = kept.approvals.find((row) => row.call_id === call_id && row.status === 'requested')
    Object.assign(asked ?? {}, decision, { decided_at: new Date(String(decision.decided_at)).getTime() })
  }
  for (const row of kept.recoveries) {
    if (rows.outcome && row.outcome === null && WITH_OUTCOME.includes(String(row.kind))) {
      const { before: _, ...outcome } = rows.outcome
      Object.assign(row, outcome, { ended_at: new Date(String(outcome.ended_at)).getTime() })
    }
  }
  kept.recoveries.push(...rows.recoveries.map((row) => plain(RECOVERIES, row)))
}

const OUTCOME = ['result', 'error', 'effect_id', 'replay_of', 'result_blob', 'completed_at', 'raw_outcome', 'outcome_seq']

/** Merges a call that an earlier segment already has: an outcome replaces the one before as a whole, everything else fills in. */
function keepCall(calls: Map<string, PlainRow>, row: PlainRow): void {
  const id = String(row.call_id)
  const before = calls.get(id)
  if (!before) {
    calls.set(id, { ...row, status: row.status ?? 'issued' })
    return
  }
  const ended = row.outcome_seq !== null
  for (const [name, value] of Object.entries(row)) {
    if (name === 'attempt' || name === 'recorded_attempt') before[name] = Math.max(Number(before[name]), Number(value))
    else if (name === 'issued_at') continue
    else if (name === 'waiting_until') before[name] = row.status === null ? before[name] : value
    else if (name === 'milestones')
      before[name] = value === null ? before[name] : [...new Set([...((before[name] as string[]) ?? []), ...(value as string[])])]
    else if (name === 'approval') before[name] = value === null ? before[name] : { ...(before[name] as object | null), ...value }
    else if (OUTCOME.includes(name) ? ended : value !== null) before[name] = value
  }
}

/** Applies an event that takes rows back. */
function move(kept: KeptRows, { event, run }: Move, epochs: ReadonlyMap<number, string>): void {
  const archive = (why: string, which: (row: PlainRow) => boolean): void => {
    const moved = kept.messages.filter(which)
    kept.messages = kept.messages.filter((row) => !which(row))
    kept.archived.push(...moved.map((row) => ({ ...row, epoch: epochs.get(Number(row.seq)), archived_seq: event.seq, why })))
  }
  switch (event.type) {
    case 'recovery_started':
      if (event.strategy === 'selective') {
        archive('recovered', (row) => row.kind === 'tool_results' && row.position === event.toSeq && Number(row.seq) < event.seq)
        return
      }
      archive(
        ARCHIVED_AS[event.strategy] ?? '',
        (row) => row.run === run && row.kind !== 'user' && Number(row.position) > (event.toSeq ?? 0),
      )
      if (event.strategy === 'restart_run') requeueMessages(kept.messages.filter((row) => row.run === run))
      return
    case 'rolled_back': {
      const { toSeq, upToSeq, keepsRun, again } = event
      const requeued = new Set((again?.messages ?? []).map(({ seq }) => seq))
      const isRemoved = ({ position, seq, kind }: PlainRow): boolean =>
        position === null ? kind !== 'scheduled' && !keepsRun && Number(seq) <= upToSeq : Number(position) > toSeq
      archive('rolled_back', (row) => isRemoved(row) && !requeued.has(Number(row.seq)))
      requeueMessages(kept.messages.filter((row) => requeued.has(Number(row.seq))))
      if (event.keys === 'forgotten') forgetUnresolved(kept, event.effects)
      return
    }
    case 'messages_unscheduled': {
      const ids = new Set(event.messageIds.map((id) => safeKey(id)))
      archive('unscheduled', (row) => row.kind === 'scheduled' && ids.has(String(row.message_id)))
      return
    }
    case 'session_started':
      archive('started_over', (row) => Number(row.seq) < event.seq)
      abandonCalls(kept, event)
      return
    case 'forked':
      archive('forked', (row) => row.position === null && Number(row.seq) < event.seq)
      Object.assign(kept, { calls: new Map(), errors: [], usage: [], approvals: [], customEvents: [], spend: [], recoveries: [] })
  }
}

const ARCHIVED_AS: Record<string, string> = { restart_run: 'restarted', abandon: 'abandoned', restart_from_last_effect: 'recovered' }

/** Makes these messages wait for a run again. */
function requeueMessages(rows: readonly PlainRow[]): void {
  for (const row of rows) Object.assign(row, { run: null, turn: null, position: null, ordinal: 0 })
}

/** A call whose effect was undone needs no resolution. */
function forgetUnresolved({ calls }: KeptRows, effects: readonly { callId: string }[]): void {
  for (const { callId } of effects) {
    const row = calls.get(safeKey(callId))
    if (row?.status === 'unknown' && (row.error as { asked?: true } | null)?.asked) row.error = UNDONE
  }
}

/** Ends the calls that were in progress: their outcomes cannot be read. */
function abandonCalls({ calls, approvals }: KeptRows, { seq, at }: { seq: number; at: number }): void {
  const left = { outcome_seq: seq, completed_at: at, waiting_until: null, raw_outcome: null, error: ABANDONED }
  for (const row of calls.values()) {
    if (row.status === 'awaiting_approval' || row.status === 'awaiting_answer') Object.assign(row, left, { status: 'skipped' })
    else if (row.status === 'issued' || row.status === 'running') Object.assign(row, left, { status: CUT_OFF[String(row.effect)] })
    else if (row.status === 'unknown' && (row.error as { asked?: true } | null)?.asked) Object.assign(row, left, { error: NEVER_RESOLVED })
  }
  for (const row of approvals.filter(({ status }) => status === 'requested')) {
    Object.assign(row, { status: ABANDONED.code, decided_at: at })
    const call = calls.get(String(row.call_id))
    Object.assign(call ?? {}, { approval: { ...(call?.approval as object | null), ...abandonedApproval(at) } })
  }
}

const CUT_OFF: Record<string, string> = { read: 'skipped', idempotent: 'failed', external: 'unknown' }

/** The calls of a session, and therefore of one agent, added up. */
function usageBy(usage: readonly PlainRow[], keyOf: (call: PlainRow) => PlainRow): PlainRow[] {
  const sums = new Map<string, PlainRow>()
  for (const call of usage) {
    const key = keyOf(call)
    const id = JSON.stringify(key)
    const one: PlainRow = { ...call, calls: 1, priced: call.usd === null ? 0 : 1 }
    const added = Object.keys(SUMS).map((name) => [name, plus(sums.get(id)?.[name], one[name])] as const)
    sums.set(id, { ...key, ...Object.fromEntries(added) })
  }
  return [...sums.values()]
}

/** Dollars come in billionths, which floating-point numbers do not add up exactly. */
const plus = (sum: unknown, one: unknown): number => Math.round((Number(sum ?? 0) + Number(one ?? 0)) * 1e9) / 1e9

/** A checkpoint holds the state folded up to it, except for the ids of accepted messages. */
function checkpointRows(events: readonly SessionEvent[]): PlainRow[] {
  const rows: PlainRow[] = []
  let state: SessionState | undefined
  let runStarts = new Map<number, number>()
  for (const event of events) {
    state = fold(state, [event])
    if (event.type === 'session_started') runStarts = new Map()
    if (event.type === 'run_started') runStarts.set(event.run, event.seq)
    const above = archivedAbove(event, state, runStarts)
    for (const row of rows) if (row.archived_seq === null && Number(row.up_to_seq) > above) row.archived_seq = event.seq
    if (event.type !== 'checkpoint_made' || !state) continue
    const { accepted: _, ...slim } = structuredClone(state)
    const { version, run, turn, seq, reasons, by, lastMessageId: last_message_id, at: created_at } = event
    const made = { version, run, turn, seq, up_to_seq: seq, last_message_id, reasons, by, created_at: new Date(created_at).toISOString() }
    const kept = {
      plan: state.plan?.current ? JSON.stringify(state.plan.current) : null,
      spent_tokens: state.spend?.tokens ?? 0,
      spent_usd: state.spend?.usd ?? 0,
    }
    rows.push(plain(CHECKPOINTS, { ...made, ...kept, state: slim as unknown as Json, state_version: STATE_VERSION, archived_seq: null }))
  }
  return rows
}

/** The event archives the checkpoints above this position. */
function archivedAbove(event: SessionEvent, state: SessionState | undefined, runStarts: ReadonlyMap<number, number>): number {
  if (event.type === 'rolled_back') return event.toSeq
  if (event.type === 'session_started') return 0
  if (event.type === 'recovery_started' && removesTurns(event)) return event.toSeq ?? runStarts.get(state?.run ?? 0) ?? event.seq
  return event.seq
}

function eventRow(event: SessionEvent, epoch: string, digest: string, json: string): PlainRow {
  const run = ('run' in event && event.run) || null
  const turn = ('turn' in event && event.turn) || null
  return { seq: event.seq, epoch, type: event.type, run, turn, at: new Date(event.at).toISOString(), digest, json }
}

function agentOf(events: readonly SessionEvent[]): string {
  const started = events.findLast((event) => event.type === 'session_started')
  return started?.type === 'session_started' ? safeKey(started.agent) : ''
}

function sessionRow({ session, openTurn }: Projection, agent: string, head: StoredText & { event: SessionEvent }): PlainRow {
  const { status, run, currentRun, turns, error, incident, plan, paused, usage, usd, model, provider, checkpoint, forkedFrom, updatedAt } =
    session
  return plain(SESSIONS, {
    agent,
    status,
    epoch: head.epoch,
    flushed_seq: head.event.seq,
    digest: head.digest,
    run,
    current_run: currentRun,
    turns,
    open_seq: openTurn?.seq ?? null,
    error,
    incident,
    plan,
    paused,
    ...usage,
    usd,
    model: model === null ? null : safeKey(model),
    provider,
    checkpoint,
    waiting: waitingCalls(session),
    parent: forkedFrom && safeKey(forkedFrom.sessionId),
    forked_seq: forkedFrom?.seq ?? null,
    updated_at: new Date(updatedAt).toISOString(),
  })
}

/** The sha256 under which `blobs` holds a value. */
export const sha256Of = (text: string): string => createHash('sha256').update(text).digest('hex')
