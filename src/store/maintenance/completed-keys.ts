// Keeps the keys of a session's effects when its events are pruned: an effect whose key is known does not happen again.
import { shortHash } from '../../session/digest.ts'
import { defined } from '../../session/defined.ts'
import type { SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import { readState, UnreadableState } from '../../session/fold/state-versions.ts'
import { copyOf } from '../../session/json.ts'
import { lightOf } from '../../session/light.ts'
import { forgottenCalls } from '../../session/past/forgotten.ts'
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

/** Bytes of JSON that are read at a time. */
const PAGE_BYTES = 1_000_000

const COLUMNS = 'key, call_id, tool, outcome, effect_id, result_sha256, at'

interface KeyRow {
  key: string
  outcome: 'completed' | 'unknown'
  callId: string
  /** Empty if it is not known. */
  tool: string
  /** The outcome, if the store has its event. */
  known?: OutcomeOfCall
  at: number
}

/** What the row of a key has from the newest event that reports the outcome of its call. */
interface OutcomeOfCall {
  tool: string
  at: number
  effectId?: string
  resultSha256?: string
}

/** Collects the keys of a session's effects from its events, one by one, in little memory. */
export interface KeyCollector {
  add(event: SessionEvent): void
  rows(): KeyRow[]
  /** Whose keys they are; undefined if the session's events cannot be folded. */
  keysOf(): { owner: string | undefined } | undefined
}

/** Starts to collect the keys of a session. `key`: its id as the store has it. */
export async function collectKeys(tx: Queryable, schema: PostgresSchema, key: string): Promise<KeyCollector> {
  return startCollecting(await adoptedState(tx, schema, key))
}

/** Records the collected keys; returns their number. */
export async function keepKeys(tx: Queryable, schema: PostgresSchema, key: string, collected: KeyCollector): Promise<number> {
  const keysOf = collected.keysOf()
  if (keysOf) await tx.query(`update ${schema.table('sessions')} set keys_of = $2 where session_id = $1`, [key, keysOf.owner ?? null])
  const rows = collected.rows()
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
      rows.map(({ known }) => (known?.effectId === undefined ? null : safeKey(known.effectId))),
      rows.map(({ known }) => known?.resultSha256 ?? null),
      rows.map(({ at }) => new Date(at).toISOString()),
    ],
  )
  return rows.length
}

/** The stored events of the session, read page by page. */
export async function* storedEvents(tx: Queryable, schema: PostgresSchema, key: string): AsyncGenerator<SessionEvent> {
  for (let after = 0; ; ) {
    const page = await eventsAt(tx, schema, key, { after, bytes: PAGE_BYTES })
    const last = page.at(-1)
    if (!last) return
    yield* page
    after = last.seq
  }
}

/**
 * Collects the keys by which a later call would be recognised, as the transcript has them, and those of calls whose outcome is unknown. If
 * the events begin with an adopted state, that state has the hashes of earlier keys.
 */
function startCollecting(adopted: SessionState | undefined): KeyCollector {
  const transcript = emptyTranscript()
  const outcomes = new Map<string, OutcomeOfCall>()
  const forgotten = new Set<string>()
  const folding = startFolding(adopted)

  function add(exact: SessionEvent): void {
    folding.add(exact)
    const { event } = soundEvent(exact)
    // Without the contents of messages and results, which have no keys.
    addIfReadable(transcript, lightOf(event))
    const outcome = outcomeIn(event)
    if (outcome) outcomes.set(...outcome)
    for (const callId of forgottenBy(exact)) forgotten.add(callId)
  }

  function rows(): KeyRow[] {
    const state = folding.state()
    const found = new Map<string, KeyRow>()
    const note = (key: string, callId: string, outcome: KeyRow['outcome'], tool?: string): void => {
      const known = outcomes.get(callId)
      if (known) found.set(key, { key, outcome, callId, tool: known.tool, known, at: known.at })
      else if (adopted && tool !== undefined) found.set(key, { key, outcome, callId, tool, at: adopted.updatedAt })
    }
    for (const [callId, { resolution }] of Object.entries(state?.unknown ?? {})) {
      for (const key of [resolution.key, resolution.firstKey]) if (key !== undefined) note(key, callId, 'unknown', resolution.tool)
    }
    // A state has room for the newest of them only.
    for (const [callId, { key, firstKey }] of transcript.lost.unknown) {
      for (const one of [key, firstKey]) if (one !== undefined) note(one, callId, 'unknown')
    }
    for (const [key, callId] of transcript.keys) note(key, callId, 'completed')
    if (!adopted) return [...found.values()]
    const known = new Set([...found.keys()].map(shortHash))
    for (const [hash, callId] of Object.entries({ ...adopted.keys, ...state?.keys }))
      if (!known.has(hash) && !forgotten.has(callId)) note(hashed(hash), callId, 'completed', '')
    return [...found.values()]
  }

  function keysOf(): ReturnType<KeyCollector['keysOf']> {
    const state = folding.state()
    return state && { owner: state.keysOf }
  }

  return { add, rows, keysOf }
}

/** The call of which the event reports the outcome of its effect, and that outcome. */
function outcomeIn(event: SessionEvent): [callId: string, outcome: OutcomeOfCall] | undefined {
  switch (event.type) {
    case 'tool_unknown':
      return [event.callId, { tool: event.tool, at: event.at }]
    case 'tool_resolved':
      if (!event.happened) return undefined
      break
    case 'tool_completed':
      break
    default:
      return undefined
  }
  const { callId, tool, at, effectId, blob, value = null } = event
  const resultSha256 = blob?.sha256 ?? sha256Of(JSON.stringify(value))
  return [callId, { tool, at, ...defined({ effectId }), resultSha256 }]
}

/** A key of which only the hash is known. No key begins like this: those of tools begin with the tool's name, and others are hexadecimal. */
const hashed = (hash: string): string => `#${hash}`

/** The calls that a rollback has forgotten. */
function forgottenBy(event: SessionEvent): readonly string[] {
  return event.type === 'rolled_back' ? forgottenCalls(event) : []
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

/** Folds a session. Its state is undefined if its events cannot be folded: it could not have resumed from them either. */
function startFolding(adopted: SessionState | undefined): { add(event: SessionEvent): void; state(): SessionState | undefined } {
  let state = adopted && copyOf(adopted)
  let isFoldable = true
  return {
    add(event) {
      // A session that was pruned before has no events before the one with which it started over.
      if (event.type === 'session_started') isFoldable = true
      if (!isFoldable) return
      try {
        state = fold(state, [event])
      } catch {
        isFoldable = false
        state = undefined
      }
    },
    state: () => state,
  }
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
