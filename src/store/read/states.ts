// A session's state from the store: the newest readable checkpoint plus the later events.
import type { SessionEvent, Watermark } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import type { SessionState } from '../../session/state.ts'
import { readState, UnreadableState } from '../../session/fold/state-versions.ts'
import type { Queryable } from '../postgres/database.ts'
import { readEntries } from './reader.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** A state without `accepted`, and warnings about unreadable parts. */
export interface FoundState {
  /** Undefined if neither a checkpoint nor the events could be read. */
  state: SessionState | undefined
  warnings: string[]
}

/** Which session's state, and up to which event. `forkedSeq`: events and states up to there are another session's. */
export interface StateOf {
  sessionId: string
  key: string
  head: Watermark
  forkedSeq: number
}

/** How many checkpoints are read at once if the newest one is unreadable. */
const NEXT = 10

/** Finds the state at the head. */
export async function findState(tx: Queryable, schema: PostgresSchema, of: StateOf): Promise<FoundState> {
  const warnings: string[] = []
  for await (const { version, upToSeq, state: text, stateVersion } of newestFirst(tx, schema, of)) {
    try {
      const base = readState(text, stateVersion)
      if (base.seq !== upToSeq) throw new UnreadableState(`it is the state after event ${base.seq}, not ${upToSeq}`)
      if (upToSeq > of.forkedSeq && base.sessionId !== of.sessionId) throw new UnreadableState(`it belongs to session ${base.sessionId}`)
      const state = await foldAbove(tx, schema, of, base)
      if (state) return { state, warnings }
      warnings.push(`events above checkpoint ${version} are missing`)
      break
    } catch (error) {
      if (!(error instanceof UnreadableState)) throw error
      warnings.push(`checkpoint ${version} was skipped: ${error.message}`)
    }
  }
  try {
    const state = await foldFromStart(tx, schema, of)
    if (!state) warnings.push('the events for folding the state are missing')
    else if (warnings.length > 0) warnings.push('the state was folded from the events')
    return { state, warnings }
  } catch (error) {
    if (!(error instanceof UnreadableState)) throw error
    return { state: undefined, warnings: [...warnings, error.message] }
  }
}

interface StoredCheckpoint {
  version: number
  upToSeq: number
  state: string
  stateVersion: number
}

async function* newestFirst(tx: Queryable, schema: PostgresSchema, { key, head }: StateOf): AsyncGenerator<StoredCheckpoint> {
  let below = 2_147_483_647
  for (let limit = 1; ; limit = NEXT) {
    const rows = await tx.query(
      `select version, up_to_seq, state, state_version from ${schema.table('checkpoints')}
       where session_id = $1 and version < $2 and up_to_seq <= $3 order by version desc limit $4`,
      [key, below, head.seq, limit],
    )
    for (const row of rows) {
      below = Number(row.version)
      yield { version: below, upToSeq: Number(row.up_to_seq), state: row.state ?? '', stateVersion: Number(row.state_version) }
    }
    if (rows.length < limit) return
  }
}

/** Folds the stored events above the base into it; undefined if some are missing. */
async function foldAbove(tx: Queryable, schema: PostgresSchema, of: StateOf, base: SessionState): Promise<SessionState | undefined> {
  let state = base
  while (state.seq < of.head.seq) {
    const page = (await readEntries(tx, schema, of.sessionId, { after: state.seq })).filter(({ seq }) => seq <= of.head.seq)
    const last = page.at(-1)
    if (!last || page[0]?.seq !== state.seq + 1 || last.seq !== state.seq + page.length) return undefined
    state = folded(state, page)
  }
  return { ...state, accepted: [] }
}

/** Folds from the newest event that a state can begin with. */
async function foldFromStart(tx: Queryable, schema: PostgresSchema, of: StateOf): Promise<SessionState | undefined> {
  const [row] = await tx.query(
    `select seq, json from ${schema.table('events')} where session_id = $1 and type = 'session_started' and seq <= $2 order by seq desc limit 1`,
    [of.key, of.head.seq],
  )
  if (!row) return undefined
  return foldAbove(tx, schema, of, folded(undefined, [{ seq: Number(row.seq), json: row.json ?? '' }]))
}

function folded(base: SessionState | undefined, entries: readonly { seq: number; json: string }[]): SessionState {
  const [first] = entries
  try {
    const state = fold(
      base,
      entries.map(({ json }) => JSON.parse(json) as SessionEvent),
    )
    if (state && state.seq === entries.at(-1)?.seq) return state
  } catch (cause) {
    throw new UnreadableState(`the events from ${first?.seq} on cannot be folded: ${String(cause)}`, { cause })
  }
  throw new UnreadableState(`the events from ${first?.seq} on yield no state`)
}
