// The write side: a flush brings a session's events and all that follows from them into the tables, in one transaction.
import type { Logger } from '../agent/tool.ts'
import { continues } from '../session/digest.ts'
import type { LogEntry, SessionEvent } from '../session/events.ts'
import { insertRows, newStatement, textOfStatement } from './bulk.ts'
import { beginFolding, type Folding, insertGuarded, type KeptStates, touchesCheckpoints, underSavepoint } from './checkpoints.ts'
import type { Database, Queryable, TextRow } from './database.ts'
import { StoreError } from './errors.ts'
import { reviveErased } from './erase.ts'
import { createSession, type LockedSession, lockSession } from './head.ts'
import { applyMove, leaveCheckpoints } from './moves.ts'
import { type CheckpointFailure, checkpointErrorRow, lateCheckpointRow } from './project-errors.ts'
import { newProjection, project, recall, replayedCalls, segmentsOf } from './projections.ts'
import type { Schema } from './schema.ts'
import type { FlushOptions, StoredHead } from './store.ts'
import { type ParsedEntry, writeSegment } from './segment.ts'
import { STRAY_EVENTS } from './tables.ts'
import { safeKey } from './text.ts'
import { breakingMigrations } from './too-new.ts'

/** JSON that one statement carries; a flush after a long outage takes several. */
const SEGMENT_BYTES = 4_000_000

/** What flushes of one store share. */
export interface WriteNeeds {
  database: Database
  schema: Schema
  kept: KeptStates
  /** Names of the migrations that this release has; undefined: nobody is to look. */
  known(): Promise<readonly string[] | undefined>
  logger: Logger | undefined
}

/** One flush, as its caller gave it. */
interface Flush {
  sessionId: string
  key: string
  epoch: string
  entries: readonly LogEntry[]
  options: FlushOptions
  /** Checkpoints are written apart: the flush has failed with them. */
  guarded: boolean
}

/** What a flush's transaction came to. */
interface Flushed {
  head: StoredHead
  strays: readonly LogEntry[]
  folding?: Folding
  failures: readonly CheckpointFailure[]
}

/** See `Store.flush`. */
export async function flush(
  needs: WriteNeeds,
  sessionId: string,
  epoch: string,
  entries: readonly LogEntry[],
  options: FlushOptions = {},
): Promise<StoredHead> {
  const known = await needs.known()
  const once = (guarded: boolean): Promise<Flushed> =>
    needs.database.transaction((tx) => flushIn(tx, needs, known, { sessionId, key: safeKey(sessionId), epoch, entries, options, guarded }))
  const { head, strays, folding, failures } = await once(false).catch((error: unknown) => {
    if (mayBeCheckpoints(error, entries)) return once(true)
    throw error
  })
  folding?.keep(head.digest)
  for (const warning of folding?.warnings ?? []) needs.logger?.warn({ sessionId }, `pawl: ${warning}`)
  for (const { event, error } of failures) {
    needs.logger?.warn({ sessionId, version: event.version, err: error }, 'pawl: a checkpoint was not written; the next one covers it')
  }
  if (strays.length > 0) {
    throw new StoreError(
      'foreign_epoch',
      `Events ${strays[0]?.seq} to ${strays.at(-1)?.seq} of session ${sessionId} were written by execution chain ${epoch}, ` +
        `the stored ones end at ${head.seq} of chain ${head.epoch}: they were set aside in stray_events for you to judge.`,
    )
  }
  return head
}

/** Whether a flush failed in a way that leaving the checkpoints out of its statements may help against. */
function mayBeCheckpoints(error: unknown, entries: readonly LogEntry[]): boolean {
  const codes = ['store_failed', 'permission_denied', 'schema_behind']
  return error instanceof StoreError && codes.includes(error.code) && entries.some((entry) => touchesCheckpoints(parsed(entry).event))
}

async function flushIn(tx: Queryable, { schema, kept }: WriteNeeds, known: readonly string[] | undefined, flush: Flush): Promise<Flushed> {
  const { key, epoch, entries } = flush
  const session = await lockOrCreate(tx, schema, known, flush)
  if (!session) return { head: { epoch, seq: 0, digest: '' }, strays: [], failures: [] }
  if (session.erased) await beginAfterErasure(tx, schema, session, flush)
  const strays = session.erased ? [] : await strayEntries(tx, schema, key, session, epoch, entries)
  if (strays.length === 0) return append(tx, schema, kept, session, flush)
  await setAside(tx, schema, key, epoch, strays)
  return { head: session.head, strays, failures: [] }
}

/** What was erased does not come back: only a chain that begins afresh is taken, also one whose first event is the session's first. */
async function beginAfterErasure(
  tx: Queryable,
  schema: Schema,
  { head }: LockedSession,
  { sessionId, key, epoch, entries }: Flush,
): Promise<void> {
  const next = entries.find((entry) => entry.seq === head.seq + 1)
  const event = epoch !== head.epoch && next?.prev === head.digest ? parsed(next).event : undefined
  if (event?.type === 'session_started') return reviveErased(tx, schema, key, event)
  throw new StoreError('session_erased', `Session ${sessionId} was erased: what is left of it elsewhere is not stored again.`)
}

/** See `Store.markRunning`. An attempt that was left behind has nothing to say any more. */
export async function markRunning(
  { database, schema, known }: WriteNeeds,
  call: { sessionId: string; callId: string; attempt: number; worker: string },
): Promise<void> {
  await database.query(
    `update ${schema.table('tool_calls')} set status = 'running', attempt = $3, worker = $4, started_at = now()
     where session_id = $1 and call_id = $2 and status in ('issued', 'running') and attempt <= $3
       and (${breakingMigrations(schema, '$5')}) is null`,
    [safeKey(call.sessionId), safeKey(call.callId), call.attempt, safeKey(call.worker), (await known()) ?? null],
  )
}

async function lockOrCreate(
  tx: Queryable,
  schema: Schema,
  known: readonly string[] | undefined,
  { key, epoch, entries }: Flush,
): Promise<LockedSession | undefined> {
  const stored = await lockSession(tx, schema, key, known)
  const [first] = entries
  if (stored || !first) return stored
  const { event } = parsed(first)
  const origin = event.type === 'session_started' ? event.after?.origin : undefined
  // What lies before a session that has begun afresh is nowhere.
  const before = origin?.seq === first.seq - 1 && origin.digest === first.prev ? origin : { seq: 0, digest: '' }
  if (first.seq !== before.seq + 1) throw gap(0, first.seq)
  if (event.type !== 'session_started') {
    throw new StoreError('invalid_events', `A session begins with session_started, not with ${event.type}: flush its events from seq 1.`)
  }
  return (await createSession(tx, schema, key, { epoch, ...before }, event)) ?? lockSession(tx, schema, key, known)
}

/**
 * The entries that do not belong to the stored past: of another epoch, unless they are stored already
 * or begin with the `session_resumed`, or the second `session_started`, that continues it.
 */
async function strayEntries(
  tx: Queryable,
  schema: Schema,
  key: string,
  { head }: LockedSession,
  epoch: string,
  entries: readonly LogEntry[],
): Promise<readonly LogEntry[]> {
  if (epoch === head.epoch) return []
  const next = entries.find((entry) => entry.seq === head.seq + 1)
  if (next && next.prev === head.digest && goesOn(parsed(next).event)) return []
  const stored = await tx.query(`select digest from ${schema.table('events')} where session_id = $1 and seq = any($2::bigint[])`, [
    key,
    entries.map((entry) => entry.seq),
  ])
  // A digest stands for all events up to it.
  const known = new Set(stored.map((row) => row.digest))
  return entries.filter((entry) => !known.has(entry.digest))
}

function goesOn(event: SessionEvent): boolean {
  return event.type === 'session_resumed' || (event.type === 'session_started' && event.after !== undefined)
}

async function setAside(tx: Queryable, schema: Schema, key: string, epoch: string, strays: readonly LogEntry[]): Promise<void> {
  const statement = newStatement()
  const rows = strays.map(({ seq, prev, digest, json }) => ({ epoch: safeKey(epoch), seq, prev, digest, json }))
  const fixed = { session_id: key }
  insertRows(statement, schema, { table: 'stray_events', columns: STRAY_EVENTS, rows, fixed, onConflict: 'on conflict do nothing' })
  await tx.query(textOfStatement(statement, 'select 1'), [...statement.values])
}

/** Applies the entries above the head; answers with the new one. */
async function append(tx: Queryable, schema: Schema, kept: KeptStates, session: LockedSession, flush: Flush): Promise<Flushed> {
  const { sessionId, key, epoch, options, guarded } = flush
  const { head } = session
  const fresh = flush.entries.filter((entry) => entry.seq > head.seq)
  const [first] = fresh
  if (!first) return { head, strays: [], failures: [] }
  if (first.seq > head.seq + 1) throw gap(head.seq, first.seq)
  if (!continues(head, fresh)) {
    throw new StoreError(
      'digest_mismatch',
      `The flushed events do not continue the stored event ${head.seq}: they come from a task that was rejected. Refill the event log.`,
    )
  }
  const entries = fresh.map(parsed)
  const projection = newProjection(session.columns)
  recall(projection, await storedEvents(tx, schema, key, session.openSeq, entries))
  const inherited = options.inherited !== undefined
  const forkedSeq = inherited ? Number.MAX_SAFE_INTEGER : (session.columns.forkedFrom?.seq ?? 0)
  const folding = await beginFolding(tx, schema, kept, { of: { sessionId, key, head, forkedSeq }, entries, guarded })
  const newest = entries.findLast(({ event }) => event.type === 'checkpoint_made')?.event
  const all: CheckpointFailure[] = []
  let last: StoredHead = head
  let committed = session.committedSeq
  for (const segment of segmentsOf(entries, SEGMENT_BYTES)) {
    const rows = project(
      projection,
      segment.map((entry) => entry.event),
      inherited,
    )
    const { rows: checkpoints, failures } = folding.fold(segment)
    const fixed = { session_id: key, agent: session.agent }
    rows.errors.push(...failures.map(checkpointErrorRow))
    if (options.late && newest?.type === 'checkpoint_made' && checkpoints.some((row) => row.version === newest.version)) {
      rows.errors.push(lateCheckpointRow(newest, options.late))
    }
    const { seq, digest } = segment.at(-1) ?? last
    last = { epoch, seq, digest }
    const commitsFrom = inherited ? undefined : committed + 1
    committed = seq
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
      commitsFrom,
    })
    all.push(...failures, ...apart)
    const { move } = rows
    if (!move) continue
    await applyMove(tx, schema, key, move)
    const leave = () => leaveCheckpoints(tx, schema, key, move)
    if (guarded) await underSavepoint(tx, leave)
    else await leave()
  }
  return { head: last, strays: [], folding, failures: all }
}

/** What the projection has to be told of before it goes on: completed results that are asked for again, and the open turn. */
async function storedEvents(
  tx: Queryable,
  schema: Schema,
  key: string,
  openSeq: number | null,
  entries: readonly ParsedEntry[],
): Promise<SessionEvent[]> {
  const events = schema.table('events')
  const openTurn =
    openSeq === null ? [] : await tx.query(`select json from ${events} where session_id = $1 and seq >= $2 order by seq`, [key, openSeq])
  const open = eventsIn(openTurn)
  const replayed = replayedCalls([...open, ...entries.map((entry) => entry.event)])
  if (replayed.length === 0) return open
  return [...eventsIn(await outcomesOf(tx, schema, key, replayed)), ...open]
}

/** The stored events that say what came of calls. Those of a past that was another session's have no rows in the ledger. */
async function outcomesOf(tx: Queryable, schema: Schema, key: string, callIds: readonly string[]): Promise<TextRow[]> {
  const events = schema.table('events')
  const found = await tx.query(
    `select calls.call_id, events.json from ${schema.table('tool_calls')} calls
     join ${events} events on events.session_id = calls.session_id and events.seq = calls.outcome_seq
     where calls.session_id = $1 and calls.call_id = any($2::text[])`,
    [key, callIds.map(safeKey)],
  )
  const known = new Set(found.map((row) => row.call_id))
  const others = callIds.filter((callId) => !known.has(safeKey(callId)))
  if (others.length === 0) return found
  const inherited = await tx.query(
    `select json from ${events}
     where session_id = $1 and type in ('tool_issued', 'tool_completed', 'tool_resolved') and run = any($2::int[]) order by seq`,
    [key, [...new Set(others.map(runOf))]],
  )
  const isAsked = (row: TextRow) => others.some((callId) => row.json?.includes(`"callId":${JSON.stringify(callId)}`))
  return [...found, ...inherited.filter(isAsked)]
}

/** A call's id is the place of its request. */
function runOf(callId: string): number {
  const run = Number(callId.split('_')[1])
  return Number.isSafeInteger(run) && run < 2 ** 31 ? run : 0
}

function eventsIn(rows: readonly TextRow[]): SessionEvent[] {
  return rows.map((row) => JSON.parse(row.json ?? '') as SessionEvent)
}

function parsed(entry: LogEntry): ParsedEntry {
  let event: SessionEvent | undefined
  try {
    event = JSON.parse(entry.json) as SessionEvent
  } catch {
    // Said below.
  }
  if (
    event === null ||
    typeof event !== 'object' ||
    event.seq !== entry.seq ||
    typeof event.type !== 'string' ||
    !Number.isFinite(event.at)
  ) {
    throw new StoreError('invalid_events', `The text of entry ${entry.seq} is not the event ${entry.seq}: flush the event's own JSON.`)
  }
  return { ...entry, event }
}

function gap(head: number, first: number): StoreError {
  return new StoreError('gap', `The store ends at event ${head}, the flush begins at ${first}: flush from event ${head + 1}.`)
}
