// Stored events that a projection needs before it continues.
import type { SessionEvent } from '../../session/events.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import { replayedCalls } from '../project/projections.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { ParsedEntry } from './entries.ts'
import { soundEvent } from '../project/sound-events.ts'
import { safeKey } from '../postgres/sanitise.ts'

/** The events of completed results that are replayed, and of the open turn. */
export async function eventsToPreload(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  openSeq: number | null,
  entries: readonly ParsedEntry[],
): Promise<SessionEvent[]> {
  const events = schema.table('events')
  // Thousands of messages may arrive during a long call, and they do not affect the turn.
  const ofTurn = `select json from ${events} where session_id = $1 and seq >= $2 and type not like 'message_%' order by seq`
  const open = openSeq === null ? [] : eventsIn(await tx.query(ofTurn, [key, openSeq], { often: true }))
  const replayed = replayedCalls([...open, ...entries.map((entry) => entry.event)])
  if (replayed.length === 0) return open
  return [...eventsIn(await outcomesOf(tx, schema, key, replayed)), ...open]
}

/** The stored events with the outcomes of calls. Calls of an inherited past have no rows in `tool_calls`. */
async function outcomesOf(tx: Queryable, schema: PostgresSchema, key: string, callIds: readonly string[]): Promise<TextRow[]> {
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

/** The run in a call's id; 0 if there is none. */
function runOf(callId: string): number {
  const run = Number(callId.split('_')[1])
  return Number.isSafeInteger(run) && run < 2 ** 31 ? run : 0
}

function eventsIn(rows: readonly TextRow[]): SessionEvent[] {
  return rows.map((row) => soundEvent(JSON.parse(row.json ?? '') as SessionEvent).event)
}
