// Keeps the keys of a session's effects when its events are pruned: an effect whose key is known does not happen again.
import { shortHash } from '../../session/digest.ts'
import type { EventOf, SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import { readState, UnreadableState } from '../../session/fold/state-versions.ts'
import { copyOf } from '../../session/json.ts'
import type { SessionState } from '../../session/state.ts'
import { addToTranscript } from '../../session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../../session/transcript/transcript.ts'
import { sha256Of } from '../blobs.ts'
import { textIn } from '../postgres/columns.ts'
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { soundEvent } from '../project/sound-events.ts'
import { eventsAt } from '../read/reader.ts'

const COLUMNS = 'key, call_id, tool, outcome, effect_id, result_sha256, at'

/** An event that reports the outcome of an effect. */
type EffectEvent = EventOf<'tool_completed'> | EventOf<'tool_resolved'> | EventOf<'tool_unknown'>

interface KeyRow {
  key: string
  outcome: 'completed' | 'unknown'
  callId: string
  /** Empty if it is not known. */
  tool: string
  /** The event with the outcome, if the store has it. */
  event?: EffectEvent
  at: number
}

/** Records the keys of the session's effects; returns their number. `key`: the session's id as the store has it. */
export async function keepKeys(tx: Queryable, schema: PostgresSchema, key: string, events: readonly SessionEvent[]): Promise<number> {
  const adopted = await adoptedState(tx, schema, key)
  const state = stateAfter(events, adopted)
  if (state) await tx.query(`update ${schema.table('sessions')} set keys_of = $2 where session_id = $1`, [key, state.keysOf ?? null])
  const rows = keysIn(events, state, adopted)
  if (rows.length === 0) return 0
  await tx.query(
    `insert into ${schema.table('completed_keys')} (session_id, ${COLUMNS})
     select $1, ${COLUMNS} from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[]) as row (${COLUMNS})
     on conflict (session_id, key) do update set call_id = excluded.call_id, tool = excluded.tool, outcome = excluded.outcome,
       effect_id = excluded.effect_id, result_sha256 = excluded.result_sha256, at = excluded.at`,
    [
      key,
      rows.map((row) => safeKey(row.key)),
      rows.map(({ callId }) => safeKey(callId)),
      rows.map(({ tool }) => safeKey(tool)),
      rows.map(({ outcome }) => outcome),
      rows.map(({ event }) => (event && 'effectId' in event && event.effectId !== undefined ? safeKey(event.effectId) : null)),
      rows.map(({ event }) => (event ? digestOf(event) : null)),
      rows.map(({ at }) => new Date(at).toISOString()),
    ],
  )
  return rows.length
}

/** All stored events of the session. */
export async function eventsOf(tx: Queryable, schema: PostgresSchema, key: string): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  for (let after = 0; ; ) {
    const page = await eventsAt(tx, schema, key, { after })
    const last = page.at(-1)
    if (!last) return events
    events.push(...page)
    after = last.seq
  }
}

/**
 * The keys by which a later call would be recognised, as the transcript has them, and those of calls whose outcome is unknown. If the events
 * begin with an adopted state, that state has the hashes of earlier keys.
 */
function keysIn(events: readonly SessionEvent[], state: SessionState | undefined, adopted: SessionState | undefined): KeyRow[] {
  const transcript = emptyTranscript()
  const outcomes = new Map<string, EffectEvent>()
  for (const exact of events) {
    const { event } = soundEvent(exact)
    addIfReadable(transcript, event)
    if (event.type === 'tool_completed' || event.type === 'tool_unknown' || (event.type === 'tool_resolved' && event.happened))
      outcomes.set(event.callId, event)
  }
  const found = new Map<string, KeyRow>()
  const add = (key: string, callId: string, outcome: KeyRow['outcome'], tool?: string): void => {
    const event = outcomes.get(callId)
    if (event) found.set(key, { key, outcome, callId, tool: event.tool, event, at: event.at })
    else if (adopted && tool !== undefined) found.set(key, { key, outcome, callId, tool, at: adopted.updatedAt })
  }
  for (const [callId, { resolution }] of Object.entries(state?.unknown ?? {})) {
    for (const key of [resolution.key, resolution.firstKey]) if (key !== undefined) add(key, callId, 'unknown', resolution.tool)
  }
  // A state has room for the newest of them only.
  for (const [callId, { key, firstKey }] of transcript.lost.unknown) {
    for (const one of [key, firstKey]) if (one !== undefined) add(one, callId, 'unknown')
  }
  for (const [key, callId] of transcript.keys) add(key, callId, 'completed')
  if (!adopted) return [...found.values()]
  const known = new Set([...found.keys()].map(shortHash))
  const forgotten = forgottenIn(events)
  for (const [hash, callId] of Object.entries({ ...adopted.keys, ...state?.keys }))
    if (!known.has(hash) && !forgotten.has(callId)) add(hashed(hash), callId, 'completed', '')
  return [...found.values()]
}

/** A key of which only the hash is known. No key begins like this: those of tools begin with the tool's name, and others are hexadecimal. */
const hashed = (hash: string): string => `#${hash}`

/** The calls that rollbacks have forgotten. */
function forgottenIn(events: readonly SessionEvent[]): ReadonlySet<string> {
  return new Set(
    events.flatMap((event) =>
      event.type === 'rolled_back' && event.keys === 'forgotten' ? event.effects.map(({ callId }) => callId) : [],
    ),
  )
}

/** The state with which a rebuild began the session's rows, because the events before it were lost. */
async function adoptedState(tx: Queryable, schema: PostgresSchema, key: string): Promise<SessionState | undefined> {
  const [row] = await tx.query(
    `select state, state_version from ${schema.table('checkpoints')} where session_id = $1 and reasons = '{adopted}' order by version limit 1`,
    [key],
  )
  if (!row) return undefined
  try {
    return readState(textIn(row, 'state'), Number(row.state_version))
  } catch (error) {
    if (error instanceof UnreadableState) return undefined
    throw error
  }
}

/** An unreadable event has no key. It must not keep its session, or the sessions after it, from being pruned. */
function addIfReadable(transcript: Transcript, event: SessionEvent): void {
  try {
    addToTranscript(transcript, event)
  } catch {
    // `events.adjusted` said why.
  }
}

/** Undefined for a session whose events cannot be folded. It could not have resumed from them either. */
function stateAfter(events: readonly SessionEvent[], adopted: SessionState | undefined): SessionState | undefined {
  // A session that was pruned before has no events before the one with which it started over.
  const start = events.findLastIndex(({ type }) => type === 'session_started')
  try {
    return fold(start < 0 && adopted ? copyOf(adopted) : undefined, events.slice(Math.max(0, start)))
  } catch {
    return undefined
  }
}

/** SHA-256 of the result's JSON. */
function digestOf(event: EffectEvent): string | null {
  if (event.type === 'tool_unknown') return null
  return event.blob?.sha256 ?? sha256Of(JSON.stringify(event.value ?? null))
}

/** What the store knows about a key whose events were pruned. */
export interface KeptKey {
  callId: string
  outcome: 'completed' | 'unknown'
}

/** See `Store.completedKey`. */
export async function findKey(database: Queryable, schema: PostgresSchema, sessionId: string, key: string): Promise<KeptKey | null> {
  const [row] = await database.query(
    `select call_id, outcome from ${schema.table('completed_keys')} where session_id = $1 and key in ($2, $3) order by key = $2 desc limit 1`,
    [safeKey(sessionId), safeKey(key), hashed(shortHash(key))],
  )
  return row ? { callId: textIn(row, 'call_id'), outcome: row.outcome === 'unknown' ? 'unknown' : 'completed' } : null
}
