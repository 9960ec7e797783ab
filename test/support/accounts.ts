// The three accounts of a session: what its events fold to, what its workflow says, and what the store's tables show. They must agree.
import { randomUUID } from 'node:crypto'
import type { SessionHandle } from 'pawl/client'
import pg from 'pg'
import { expect } from 'vitest'
import { continues } from '../../src/session/digest.ts'
import type { LogEntry, SessionEvent } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold.ts'
import type { SessionState } from '../../src/session/state.ts'
import { addToTranscript, emptyTranscript } from '../../src/session/transcript.ts'
import { openStore } from '../../src/store/index.ts'
import type { Store } from '../../src/store/store.ts'
import { until } from './until.ts'

/** Compares accounts. */
export interface Accounts {
  /** Waits until all of the session is stored, and compares; `state` is what its workflow says. */
  agree(session: SessionHandle, state: SessionState): Promise<void>
  close(): Promise<void>
}

interface StoredEntry extends LogEntry {
  epoch: string
  event: SessionEvent
}

/** Every table that is made of events, and what in it says when, or by which process, it was written. */
const TABLES: Record<string, readonly string[]> = {
  sessions: ['flushed_at'],
  messages: [],
  archived_messages: ['archived_at'],
  // A call that takes long is told of by its own process too, best effort.
  tool_calls: ['worker', 'started_at', 'progress'],
  errors: [],
  token_usage: [],
  checkpoints: [],
  approvals: [],
  recoveries: [],
}

/** Accounts over the store at `databaseUrl`; a second store is made anew from the events of each session. */
export async function openAccounts(databaseUrl: string, schema = 'pawl'): Promise<Accounts> {
  const anew = `anew_${randomUUID().slice(0, 8)}`
  const client = new pg.Client(databaseUrl)
  await client.connect()
  const store = openStore({ postgres: databaseUrl, schema: anew })

  async function entriesOf(sessionId: string): Promise<StoredEntry[]> {
    const { rows } = await client.query<{ seq: string; epoch: string; digest: string; json: string }>(
      `select seq, epoch, digest, json from "${schema}".events where session_id = $1 order by seq`,
      [sessionId],
    )
    let prev = ''
    return rows.map(({ seq, epoch, digest, json }) => {
      const entry = { seq: Number(seq), epoch, prev, digest, json, event: JSON.parse(json) as SessionEvent }
      prev = digest
      return entry
    })
  }

  async function rowsOf(table: string, from: string, sessionId: string): Promise<unknown[]> {
    const { rows } = await client.query<{ row: string }>(
      `select (to_jsonb(t) - $2::text[])::text as row from "${from}".${table} t where session_id = $1`,
      [sessionId, TABLES[table]],
    )
    const all = rows.map(({ row }) => JSON.parse(row) as Record<string, unknown>)
    // That a checkpoint was late, or could not be written, is no event.
    const ofEvents = all.filter((row) => !(table === 'errors' && row.context === 'checkpoint'))
    return ofEvents.map((row) => JSON.stringify(row)).sort()
  }

  return {
    async agree(session, state) {
      const { id } = session
      await until(`${id} is stored up to event ${state.seq}`, async () => (await entriesOf(id)).at(-1)?.seq === state.seq, 60_000)
      const entries = await entriesOf(id)
      expect(continues({ seq: 0, digest: '' }, entries), `the events of ${id} hang together`).toBe(true)
      const events = entries.map(({ event }) => event)
      expect(fold(undefined, structuredClone(events)), `${id}: what the events fold to is what the workflow says`).toEqual(state)
      const transcript = emptyTranscript()
      for (const event of events) addToTranscript(transcript, event)
      const messages = (await session.messages()).filter(({ run }) => run !== null)
      expect(messages.map(({ role, content }) => ({ role, content }))).toEqual(transcript.messages)
      await writeAnew(store, id, entries)
      for (const table of Object.keys(TABLES)) {
        expect(await rowsOf(table, schema, id), `${id}: ${table} is what the events make of it`).toEqual(await rowsOf(table, anew, id))
      }
    },
    async close() {
      await store.close()
      await client.query(`drop schema if exists "${anew}" cascade`)
      await client.end()
    },
  }
}

/** Brings all events to another store, one chain's at a time, as few flushes as can be. */
async function writeAnew(store: Store, id: string, entries: readonly StoredEntry[]): Promise<void> {
  const forkedAt = entries.findLast(({ event }) => event.type === 'forked')
  const from = forkedAt?.event.type === 'forked' ? forkedAt.event.from.sessionId : undefined
  const inherited = forkedAt ? entries.filter(({ seq }) => seq < forkedAt.seq) : []
  if (from !== undefined && inherited[0]) await store.flush(id, inherited[0].epoch, inherited, { inherited: from })
  let chain: StoredEntry[] = []
  for (const entry of entries.slice(inherited.length)) {
    if (chain[0] && chain[0].epoch !== entry.epoch) {
      await store.flush(id, chain[0].epoch, chain)
      chain = []
    }
    chain.push(entry)
  }
  if (chain[0]) await store.flush(id, chain[0].epoch, chain)
}
