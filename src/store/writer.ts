// The write side: a flush brings a session's events and all that follows from them into the tables, in one transaction.
import { continues } from '../session/digest.ts'
import type { LogEntry, SessionEvent } from '../session/events.ts'
import { insertRows, newStatement, textOfStatement } from './bulk.ts'
import type { Database, Queryable, TextRow } from './database.ts'
import { StoreError } from './errors.ts'
import { createSession, type LockedSession, lockSession } from './head.ts'
import { newProjection, project, recall, replayedCalls, segmentsOf } from './projections.ts'
import type { Schema } from './schema.ts'
import type { StoredHead } from './store.ts'
import { type ParsedEntry, writeSegment } from './segment.ts'
import { STRAY_EVENTS } from './tables.ts'
import { safeKey } from './text.ts'

/** JSON that one statement carries; a flush after a long outage takes several. */
const SEGMENT_BYTES = 4_000_000

/** See `Store.flush`. */
export async function flush(
  database: Database,
  schema: Schema,
  sessionId: string,
  epoch: string,
  entries: readonly LogEntry[],
): Promise<StoredHead> {
  const key = safeKey(sessionId)
  const { head, strays } = await database.transaction(async (tx): Promise<{ head: StoredHead; strays: readonly LogEntry[] }> => {
    const session = await lockOrCreate(tx, schema, key, epoch, entries)
    if (!session) return { head: { epoch, seq: 0, digest: '' }, strays: [] }
    const strays = await strayEntries(tx, schema, key, session, epoch, entries)
    if (strays.length > 0) await setAside(tx, schema, key, epoch, strays)
    const head = strays.length > 0 ? session.head : await append(tx, schema, key, session, epoch, entries)
    return { head, strays }
  })
  if (strays.length > 0) {
    throw new StoreError(
      'foreign_epoch',
      `Events ${strays[0]?.seq} to ${strays.at(-1)?.seq} of session ${sessionId} were written by execution chain ${epoch}, ` +
        `the stored ones end at ${head.seq} of chain ${head.epoch}: they were set aside in stray_events for you to judge.`,
    )
  }
  return head
}

/** See `Store.markRunning`. */
export async function markRunning(
  database: Database,
  schema: Schema,
  call: { sessionId: string; callId: string; attempt: number; worker: string },
): Promise<void> {
  await database.query(
    `update ${schema.table('tool_calls')} set status = 'running', attempt = greatest(attempt, $3), worker = $4, started_at = now()
     where session_id = $1 and call_id = $2 and status in ('issued', 'running')`,
    [safeKey(call.sessionId), safeKey(call.callId), call.attempt, safeKey(call.worker)],
  )
}

async function lockOrCreate(
  tx: Queryable,
  schema: Schema,
  key: string,
  epoch: string,
  entries: readonly LogEntry[],
): Promise<LockedSession | undefined> {
  const stored = await lockSession(tx, schema, key)
  const [first] = entries
  if (stored || !first) return stored
  if (first.seq !== 1) throw gap(0, first.seq)
  const { event } = parsed(first)
  if (event.type !== 'session_started') {
    throw new StoreError('invalid_events', `A session begins with session_started, not with ${event.type}: flush its events from seq 1.`)
  }
  return (await createSession(tx, schema, key, epoch, event)) ?? lockSession(tx, schema, key)
}

/**
 * The entries that do not belong to the stored past: of another epoch, unless they are stored already
 * or begin with the `session_resumed` that continues it.
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
  if (next && next.prev === head.digest && parsed(next).event.type === 'session_resumed') return []
  const stored = await tx.query(`select digest from ${schema.table('events')} where session_id = $1 and seq = any($2::bigint[])`, [
    key,
    entries.map((entry) => entry.seq),
  ])
  // A digest stands for all events up to it.
  const known = new Set(stored.map((row) => row.digest))
  return entries.filter((entry) => !known.has(entry.digest))
}

async function setAside(tx: Queryable, schema: Schema, key: string, epoch: string, strays: readonly LogEntry[]): Promise<void> {
  const statement = newStatement()
  const rows = strays.map(({ seq, prev, digest, json }) => ({ epoch: safeKey(epoch), seq, prev, digest, json }))
  const fixed = { session_id: key }
  insertRows(statement, schema, { table: 'stray_events', columns: STRAY_EVENTS, rows, fixed, onConflict: 'on conflict do nothing' })
  await tx.query(textOfStatement(statement, 'select 1'), [...statement.values])
}

/** Applies the entries above the head; answers with the new one. */
async function append(
  tx: Queryable,
  schema: Schema,
  key: string,
  session: LockedSession,
  epoch: string,
  entries: readonly LogEntry[],
): Promise<StoredHead> {
  const { head } = session
  const fresh = entries.filter((entry) => entry.seq > head.seq)
  const [first] = fresh
  if (!first) return head
  if (first.seq > head.seq + 1) throw gap(head.seq, first.seq)
  if (!continues(head, fresh)) {
    throw new StoreError(
      'digest_mismatch',
      `The flushed events do not continue the stored event ${head.seq}: they come from a task that was rejected. Refill the event log.`,
    )
  }
  const parsedEntries = fresh.map(parsed)
  const projection = newProjection(session.columns)
  recall(projection, await storedEvents(tx, schema, key, session.openSeq, parsedEntries))
  let last: StoredHead = head
  for (const segment of segmentsOf(parsedEntries, SEGMENT_BYTES)) {
    const rows = project(
      projection,
      segment.map((entry) => entry.event),
    )
    const { seq, digest } = segment.at(-1) ?? last
    last = { epoch, seq, digest }
    await writeSegment(tx, schema, { key, agent: session.agent, entries: segment, rows, projection, head: last })
  }
  return last
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
  const outcomes = await tx.query(
    `select json from ${events} where session_id = $1 and
       seq in (select outcome_seq from ${schema.table('tool_calls')} where session_id = $1 and call_id = any($2::text[]))`,
    [key, replayed.map(safeKey)],
  )
  return [...eventsIn(outcomes), ...open]
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
