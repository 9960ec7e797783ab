// Compares a session's rows in the side store with the session itself: its events, its state, and every projection, row by row.
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import type { SessionEvent } from 'pawl'
import pg from 'pg'
import { expect } from 'vitest'
import { blobOf } from '../../src/session/blobs.ts'
import { nextDigest } from '../../src/session/digest.ts'
import { fold } from '../../src/session/fold/fold.ts'
import { QUERIES, workflowIdOf } from '../../src/session/protocol/protocol.ts'
import type { SessionState } from '../../src/session/state.ts'
import type { Columns } from '../../src/store/postgres/tables.ts'
import { safeKey } from '../../src/store/postgres/sanitise.ts'
import type { SharedStack } from '../setup/stack.ts'
import { eventsOf } from './events.ts'
import { COLUMNS, plain, type PlainRow, projectedTables, sha256Of, type StoredText, TABLES } from './projected.ts'
import { until } from './until.ts'

/** What was compared. */
export interface Matched {
  events: SessionEvent[]
  state: SessionState
  /** Rows by table. */
  rows: Record<(typeof TABLES)[number], PlainRow[]>
}

/** The schema, and how long the store may take to catch up (default 40 s). */
export interface MatchOptions {
  schema?: string
  timeoutMs?: number
  /** The workflow is asked for the events after this one. Default 0: all events; each earlier execution is replayed for them. */
  after?: number
}

/**
 * Expects of a session that is at rest and whose workflow a worker serves: fold of the `events` rows = the workflow's own state = the
 * rows of every projection, each once. Waits until the store has caught up with the workflow, and compares the rows of that moment.
 */
export async function rowsMatchEvents(stack: SharedStack, sessionId: string, options: MatchOptions = {}): Promise<Matched> {
  const { schema = 'pawl', timeoutMs = 40_000, after = 0 } = options
  const client = new pg.Client(stack.databaseUrl)
  await client.connect()
  const live = await openLive(stack)
  const read = async <Row extends object>(sql: string): Promise<Row[]> =>
    (await client.query<Row>(sql.replaceAll('{schema}', `"${schema}"`), [safeKey(sessionId)])).rows
  try {
    const { state, events } = await until(
      'the store has what the workflow has',
      async () => {
        // One snapshot for all reads: a late result or an expired decision may change even a session that waits for a person.
        await client.query('rollback')
        await client.query('begin isolation level repeatable read read only')
        const [row] = await read<{ flushed_seq: string }>('select flushed_seq from {schema}.sessions where session_id = $1')
        const now = await live.look(sessionId, after)
        if (Number(row?.flushed_seq) === now.state.seq) return now
        throw new Error(
          `the store ends at ${row?.flushed_seq}, the workflow at ${now.state.seq}; it waits for: ${await live.pending(sessionId)}`,
        )
      },
      timeoutMs,
    )
    const stored = await read<StoredText>('select epoch, digest, json from {schema}.events where session_id = $1 order by seq')
    compareEvents(stored, events)
    const folded = fold(
      undefined,
      stored.map(({ json }) => JSON.parse(json) as SessionEvent),
    )
    expect(timeless(folded), 'the fold of the events is the state').toEqual(timeless(state))
    const expected = projectedTables(stored)
    const rows = {} as Matched['rows']
    for (const table of TABLES) {
      const found = await read<{ row: Record<string, unknown> }>(`select to_jsonb(t) as row from {schema}.${table} t where session_id = $1`)
      // Postgres returns them in any order.
      rows[table] = inOrder(found.map(({ row }) => plain(COLUMNS[table], asWritten(table, row))))
      expect(comparable(table, rows[table]), `rows of ${table}`).toEqual(comparable(table, expected[table], rows[table]))
    }
    await compareTheRest(read, stored)
    return { events, state, rows }
  } finally {
    await client.end()
    await live.close()
  }
}

/** Turns what Postgres has as JSON back into the text that was written. */
function asWritten(table: (typeof TABLES)[number], row: Record<string, unknown>): Record<string, unknown> {
  const columns: Columns = COLUMNS[table]
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      const isJson = columns[name] === 'jsonb' && value !== null && name !== 'state'
      return [name, isJson ? JSON.stringify(value) : value]
    }),
  )
}

/** Asks the workflow itself. */
async function openLive({ temporalAddress: address, namespace }: SharedStack) {
  const connection = await Connection.connect({ address })
  const temporal = new Client({ connection, namespace })
  const pawl = await Pawl.connect({ temporal: { address, namespace }, postgres: false })
  return {
    async look(sessionId: string, after: number): Promise<{ state: SessionState; events: SessionEvent[] }> {
      const handle = temporal.workflow.getHandle(workflowIdOf(sessionId))
      const before = await handle.query<SessionState>(QUERIES.state)
      const events = await eventsOf(pawl.session(sessionId), after)
      const state = await handle.query<SessionState>(QUERIES.state)
      if (state.seq !== before.seq || events.at(-1)?.seq !== state.seq) throw new Error('the session is not at rest')
      return { state, events }
    },
    /** The activities that the workflow waits for, with their last failures. */
    async pending(sessionId: string): Promise<string> {
      const { raw } = await temporal.workflow.getHandle(workflowIdOf(sessionId)).describe()
      const told = (raw.pendingActivities ?? []).map(
        ({ activityType, attempt, lastFailure }) => `${activityType?.name} (attempt ${attempt}: ${lastFailure?.message ?? 'no failure'})`,
      )
      return told.join('; ') || 'nothing'
    },
    async close(): Promise<void> {
      await pawl.close()
      await connection.close()
    },
  }
}

/** Times, which a replay may set differently than the task did: the SDK may merge two tasks (see src/session/digest.ts). */
const TIMES = new Set(['at', 'expiresAt', 'nextAttemptAt', 'times', 'createdAt', 'updatedAt', 'startedAt', 'pausedMs'])

function timeless(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (key, one: unknown) =>
    TIMES.has(key) && (typeof one === 'number' || key === 'times') ? undefined : one,
  )
}

/** The stored texts are a complete chain of digests, and equal the workflow's events as far back as it remembers. */
function compareEvents(stored: readonly StoredText[], events: readonly SessionEvent[]): void {
  let digest = ''
  for (const [index, entry] of stored.entries()) {
    digest = nextDigest(digest, entry.json)
    expect(entry.digest, `the digest of event ${index + 1}`).toBe(digest)
  }
  const from = (events[0]?.seq ?? 1) - 1
  expect(stored.slice(from).map(({ json }) => timeless(JSON.parse(json)))).toEqual(events.map(timeless))
}

/** The rows in one order, without what events do not determine. `actual`: the rows to compare with. */
function comparable(table: (typeof TABLES)[number], rows: readonly PlainRow[], actual?: readonly PlainRow[]): PlainRow[] {
  // Checkpoints that could not be written in time have additional rows.
  const ordered = inOrder(rows.filter((row) => table !== 'errors' || row.context !== 'checkpoint'))
  if (table !== 'tool_calls') return ordered
  if (!actual) return ordered
  // An activity itself reports, with best effort, that it runs, where, and since when: that stays unless an event says otherwise.
  const told = new Map(actual.map((row) => [row.call_id, row]))
  return ordered.map((row) => {
    const { worker, started_at, status } = told.get(row.call_id) ?? {}
    const isRunning = row.status === 'issued' && status === 'running'
    return { ...row, worker: row.worker ?? worker, started_at: row.started_at ?? started_at, ...(isRunning && { status }) }
  })
}

const inOrder = (rows: readonly PlainRow[]): PlainRow[] => rows.toSorted((one, other) => orderOf(one).localeCompare(orderOf(other)))

const orderOf = ({ seq, version, call_id, day, model }: PlainRow): string =>
  String(seq ?? version ?? call_id ?? (day === undefined ? '' : `${day} ${model}`)).padStart(40, '0')

/** Expects values to be in `blobs`, no event to be set aside, and each event once in the feed. */
async function compareTheRest(read: <Row extends object>(sql: string) => Promise<Row[]>, stored: readonly StoredText[]): Promise<void> {
  expect(await read('select * from {schema}.stray_events where session_id = $1'), 'events that were set aside').toEqual([])
  const refs = stored.flatMap(({ json }) => blobOf(JSON.parse(json) as SessionEvent) ?? [])
  const blobs = await read<{ sha256: string; content: string }>('select sha256, content from {schema}.blobs where session_id = $1')
  for (const { sha256, content } of blobs) expect(sha256Of(content), 'a blob is what its name says').toBe(sha256)
  const held = new Set(blobs.map(({ sha256 }) => sha256))
  expect(
    refs.filter(({ sha256 }) => !held.has(sha256)),
    'values that are not in blobs',
  ).toEqual([])
  const commits = await read<{ first_seq: string; last_seq: string }>(
    'select first_seq, last_seq from {schema}.commits where session_id = $1 order by first_seq',
  )
  for (const [index, { first_seq }] of commits.entries()) {
    if (index > 0) expect(Number(first_seq), 'commits are contiguous').toBe(Number(commits[index - 1]?.last_seq) + 1)
  }
  expect(Number(commits.at(-1)?.last_seq), 'the last commit').toBe(stored.length)
}
