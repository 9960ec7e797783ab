// One transaction of a flush: selects the events to apply and writes their rows in all tables.
import type { Logger } from '../../agent/tool.ts'
import { continues } from '../../session/digest.ts'
import type { LogEntry, SessionEvent } from '../../session/events.ts'
import { insertRows, newStatement, textOfStatement } from '../postgres/insert-rows.ts'
import { beginFolding, type FlushFold, insertGuarded, type KeptStates, underSavepoint } from './checkpoints.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { type ParsedEntry, parsed } from './entries.ts'
import { reviveErased } from '../maintenance/erase.ts'
import { StoreError } from '../errors.ts'
import { createSession, type LockedSession, lockSession, type WriterIdentity } from './head.ts'
import { applyMove, archiveCheckpoints } from './moves.ts'
import { type CheckpointFailure, checkpointErrorRow, lateCheckpointRow } from '../project/errors.ts'
import { newProjection, skipEvents, project, preload, segmentsOf, type Move } from '../project/projections.ts'
import type { Notifier } from '../postgres/notifications.ts'
import { eventsToPreload } from './preloading.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { writeSegment } from './segment.ts'
import type { Ending, WrittenEvents, StoredHead } from '../rows.ts'
import type { FlushOptions } from '../store.ts'
import { STRAY_EVENTS } from '../postgres/tables.ts'
import { safeKey } from '../postgres/sanitise.ts'
import { wasErased } from './erased.ts'

/** Bytes of JSON per statement; a flush after a long outage needs several. */
const SEGMENT_BYTES = 4_000_000

/** Shared by all flushes of one store. */
export interface WriteNeeds {
  database: Database
  schema: PostgresSchema
  kept: KeptStates
  notifier: Notifier
  /** Names of the migrations that this release has; undefined skips the check. */
  known(): Promise<readonly string[] | undefined>
  /** The Temporal namespace of this process; undefined skips the check. */
  namespace: string | undefined
  logger: Logger | undefined
  /** Called with the events that this store has written, each once over all processes, except inherited ones. */
  onStored?: ((stored: WrittenEvents) => void) | undefined
}

/** A flush, or a part of it. */
export interface Flush {
  sessionId: string
  key: string
  epoch: string
  entries: readonly LogEntry[]
  options: FlushOptions
}

/**
 * The mode of a transaction. `guarded`: checkpoints are written separately, because the flush failed with them. `problem`: the flush's
 * only event is stored without rows, because it failed with them.
 */
export interface Manner {
  guarded: boolean
  problem?: string
}

export interface FlushOutcome {
  head: StoredHead
  strays: readonly LogEntry[]
}

/** The outcome of a flush's transaction. */
export interface TransactionOutcome extends FlushOutcome {
  folding?: FlushFold
  failures: readonly CheckpointFailure[]
  /** The written events. */
  entries: readonly ParsedEntry[]
  /** What ended with them. */
  endings: readonly Ending[]
  /** The session's agent; absent if nothing was written. */
  agent?: string
}

/** Locks the session and applies the entries, or sets them aside. */
export async function applyFlush(
  tx: Queryable,
  { schema, kept }: WriteNeeds,
  writer: WriterIdentity,
  flush: Flush,
  manner: Manner,
): Promise<TransactionOutcome> {
  const { key, epoch, entries, options } = flush
  const session = await lockOrCreate(tx, schema, writer, flush)
  if (options.inherited !== undefined) await requireSource(tx, schema, options.inherited, entries.at(-1))
  if (!session) return { ...NOTHING, head: { epoch, seq: 0, digest: '' } }
  if (session.erased) await beginAfterErasure(tx, schema, session, flush)
  const strays = session.erased ? [] : await strayEntries(tx, schema, key, session, epoch, entries)
  if (strays.length === 0) return append(tx, schema, kept, session, flush, manner)
  if (await wasErased(tx, schema, key, epoch)) throw erasedError(flush.sessionId)
  await setAside(tx, schema, key, epoch, strays)
  return { ...NOTHING, head: session.head, strays }
}

/**
 * Whatever is copied must still be in the session that it comes from: an erasure of that session names the forks that have rows, so a copy
 * must not appear after it.
 */
async function requireSource(tx: Queryable, schema: PostgresSchema, sessionId: string, last: LogEntry | undefined): Promise<void> {
  const key = safeKey(sessionId)
  // An erasure locks the row, too. The next statement sees what it has deleted.
  const [source] = await tx.query(`select from ${schema.table('sessions')} where session_id = $1 for share`, [key])
  if (!source || !last) return
  const found = await tx.query(`select from ${schema.table('events')} where session_id = $1 and seq = $2 and digest = $3`, [
    key,
    last.seq,
    last.digest,
  ])
  if (found.length === 0)
    throw new StoreError('session_erased', `The events of session ${sessionId} were deleted while they were being copied.`)
}

const NOTHING: Omit<TransactionOutcome, 'head'> = { strays: [], failures: [], entries: [], endings: [] }

/** Erased content must not come back: only a new chain is accepted, even if its first event is the session's first. */
async function beginAfterErasure(
  tx: Queryable,
  schema: PostgresSchema,
  { head }: LockedSession,
  { sessionId, key, epoch, entries }: Flush,
): Promise<void> {
  const next = entries.find((entry) => entry.seq === head.seq + 1)
  const event = epoch !== head.epoch && next?.prev === head.digest ? parsed(next).event : undefined
  // A chain that was erased before its first event was stored begins in the same way.
  if (event?.type !== 'session_started' || (await wasErased(tx, schema, key, epoch))) throw erasedError(sessionId)
  await reviveErased(tx, schema, key, event)
}

const erasedError = (sessionId: string): StoreError =>
  new StoreError('session_erased', `Session ${sessionId} was erased: its remaining events are not stored again.`)

async function lockOrCreate(
  tx: Queryable,
  schema: PostgresSchema,
  writer: WriterIdentity,
  { key, epoch, entries }: Flush,
): Promise<LockedSession | undefined> {
  const stored = await lockSession(tx, schema, key, writer)
  const [first] = entries
  if (stored || !first) return stored
  const { event } = parsed(first)
  const startsOver = event.type === 'session_started' && event.after !== undefined
  // A session that started over has no earlier events.
  const before = startsOver ? { seq: first.seq - 1, digest: first.prev } : { seq: 0, digest: '' }
  if (first.seq !== before.seq + 1) throw gap(0, first.seq)
  if (event.type !== 'session_started') {
    throw new StoreError('invalid_events', `A session begins with session_started, not with ${event.type}. Flush its events from seq 1.`)
  }
  return (await createSession(tx, schema, key, { epoch, ...before }, event)) ?? lockSession(tx, schema, key, writer)
}

/**
 * The entries that do not belong to the stored past: those of another epoch, unless they are stored already or begin with the
 * `session_resumed`, or the second `session_started`, that continues it.
 */
async function strayEntries(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  { head }: LockedSession,
  epoch: string,
  entries: readonly LogEntry[],
): Promise<readonly LogEntry[]> {
  if (epoch === head.epoch) return []
  const next = entries.find((entry) => entry.seq === head.seq + 1)
  if (next && next.prev === head.digest && continuesStoredPast(parsed(next).event)) return []
  const stored = await tx.query(`select digest from ${schema.table('events')} where session_id = $1 and seq = any($2::bigint[])`, [
    key,
    entries.map((entry) => entry.seq),
  ])
  // A digest identifies all events up to it.
  const known = new Set(stored.map((row) => row.digest))
  return entries.filter((entry) => !known.has(entry.digest))
}

function continuesStoredPast(event: SessionEvent): boolean {
  return event.type === 'session_resumed' || (event.type === 'session_started' && event.after !== undefined)
}

async function setAside(tx: Queryable, schema: PostgresSchema, key: string, epoch: string, strays: readonly LogEntry[]): Promise<void> {
  const statement = newStatement()
  const rows = strays.map(({ seq, prev, digest, json }) => ({ epoch: safeKey(epoch), seq, prev, digest, json }))
  const fixed = { session_id: key }
  insertRows(statement, schema, { table: 'stray_events', columns: STRAY_EVENTS, rows, fixed, onConflict: 'on conflict do nothing' })
  await tx.query(textOfStatement(statement, 'select 1'), [...statement.values])
}

/** The entries above the head. @throws StoreError `gap`, `flush_mismatch`. */
function freshOf(entries: readonly LogEntry[], head: StoredHead): LogEntry[] {
  const fresh = entries.filter((entry) => entry.seq > head.seq)
  const [first] = fresh
  if (!first) return fresh
  if (first.seq > head.seq + 1) throw gap(head.seq, first.seq)
  if (!continues(head, fresh)) {
    throw new StoreError(
      'flush_mismatch',
      `The flushed events do not continue stored event ${head.seq}: they come from a task that was rejected. Refill the event log.`,
    )
  }
  return fresh
}

/** Applies the entries above the head; returns the new head. */
async function append(
  tx: Queryable,
  schema: PostgresSchema,
  kept: KeptStates,
  session: LockedSession,
  flush: Flush,
  { guarded, problem }: Manner,
): Promise<TransactionOutcome> {
  const { sessionId, key, epoch, options } = flush
  const { head } = session
  const fresh = freshOf(flush.entries, head)
  if (fresh.length === 0) return { ...NOTHING, head }
  const entries = fresh.map((entry) => parsed(entry, problem))
  const projection = newProjection(session.columns)
  preload(projection, await eventsToPreload(tx, schema, key, reopenedSeq(head, entries) ?? session.openSeq, entries))
  const inherited = options.inherited !== undefined
  const forkedSeq = inherited ? Number.MAX_SAFE_INTEGER : (session.columns.forkedFrom?.seq ?? 0)
  const folding = await beginFolding(tx, schema, kept, { of: { sessionId, key, head, forkedSeq }, entries, guarded })
  const newest = entries.findLast(({ event }) => event.type === 'checkpoint_made')?.event
  const all: CheckpointFailure[] = []
  const endings: Ending[] = []
  let last: StoredHead = head
  for (const segment of segmentsOf(entries, SEGMENT_BYTES)) {
    const events = segment.map((entry) => entry.event)
    const rows = problem === undefined ? project(projection, events, inherited) : skipEvents(projection, events)
    const folded = folding.fold(segment)
    const { rows: checkpoints, failures } = problem === undefined ? folded : { rows: [], failures: [] }
    const fixed = { session_id: key, agent: session.agent }
    rows.errors.push(...failures.map(checkpointErrorRow))
    if (options.late && newest?.type === 'checkpoint_made' && checkpoints.some((row) => row.version === newest.version)) {
      rows.errors.push(lateCheckpointRow(newest, options.late))
    }
    const { seq, digest } = segment.at(-1) ?? last
    last = { epoch, seq, digest }
    // The event that records the origin is the fork's own and comes after the copy. An erasure of the original must know about the fork
    // before that.
    if (options.inherited !== undefined) projection.session.forkedFrom = { sessionId: options.inherited, seq }
    const apart = guarded ? await insertGuarded(tx, schema, fixed, checkpoints, segment) : []
    rows.errors.unshift(...apart.map(checkpointErrorRow))
    await writeSegment(tx, schema, {
      key,
      agent: session.agent,
      entries: segment,
      rows,
      checkpoints: guarded ? [] : checkpoints,
      projection,
      head: last,
      executionId: options.executionId,
      commitsFrom: inherited ? undefined : segment[0]?.seq,
    })
    all.push(...failures, ...apart)
    endings.push(...rows.endings)
    if (rows.move) await carryOutMove(tx, schema, key, rows.move, guarded)
  }
  return { head: last, strays: [], folding, failures: all, entries, endings, agent: session.agent }
}

/** Archives what the move takes out, including checkpoints. */
async function carryOutMove(tx: Queryable, schema: PostgresSchema, key: string, move: Move, guarded: boolean): Promise<void> {
  await applyMove(tx, schema, key, move)
  const archive = () => archiveCheckpoints(tx, schema, key, move)
  if (guarded) await underSavepoint(tx, archive)
  else await archive()
}

/** `seq` of the stored answer whose turn these events reopen, if any: it is the newest answer. */
function reopenedSeq(head: StoredHead, entries: readonly ParsedEntry[]): number | undefined {
  const { event } = entries.find((entry) => entry.event.type === 'recovery_started' && entry.event.strategy === 'selective') ?? {}
  const toSeq = event?.type === 'recovery_started' ? event.toSeq : undefined
  return toSeq !== undefined && toSeq <= head.seq ? toSeq : undefined
}

function gap(head: number, first: number): StoreError {
  return new StoreError('gap', `The store ends at event ${head}, but the flush begins at ${first}. Flush from event ${head + 1}.`)
}
