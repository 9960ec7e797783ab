// Parts of a session's past, found by indexes: what a reader of the conversation needs besides the events that it reads in order.
import type { SessionEvent } from '../../session/events.ts'
import type { SaidMessage } from '../../session/past/source.ts'
import { numberIn, textIn } from '../postgres/columns.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** Reads parts of a session's past. Each method rejects with `StoreError`. */
export interface StoredConversation {
  /** The newest events up to `seq`, newest first: at most 200 and about 500,000 bytes; an empty list if there are none. */
  upTo(sessionId: string, seq: number): Promise<SessionEvent[]>
  /** The first of these events, in the given order: about 1,000,000 bytes of them. Omits those that are not stored. */
  at(sessionId: string, seqs: readonly number[]): Promise<SessionEvent[]>
  /** See `PastSource.turningPoints`. */
  turningPoints(sessionId: string, after: number, before: number): Promise<SessionEvent[]>
  /** The messages of the transcript with these ids; if `ids` is undefined, those that are not in a turn yet. */
  messages(sessionId: string, ids: readonly string[] | undefined): Promise<SaidMessage[]>
  /** The newest event before `seq` with an output of the call. */
  output(sessionId: string, callId: string, before: number): Promise<SessionEvent | undefined>
}

/** Maximum events of one page that is read backwards, by count and by bytes of JSON. */
const PAGE_EVENTS = 200
const PAGE_BYTES = 500_000
/** Approximate maximum bytes of events that are read by their `seq` at a time. */
const CHOSEN_BYTES = 1_000_000

/** The conversations of a store. `reading`: prepares the store for each read. */
export function conversationsOf(
  database: Queryable,
  schema: PostgresSchema,
  reading: <T>(work: () => Promise<T>) => Promise<T>,
): StoredConversation {
  const events = schema.table('events')
  const query = (sql: string, sessionId: string, ...values: unknown[]): Promise<TextRow[]> =>
    reading(() => database.query(sql, [safeKey(sessionId), ...values]))
  const read = async (sql: string, sessionId: string, ...values: unknown[]): Promise<SessionEvent[]> =>
    (await query(sql, sessionId, ...values)).map(eventIn)

  return {
    upTo: (sessionId, seq) =>
      read(
        `select json from (
           select seq, json, sum(octet_length(json)) over (order by seq desc) - octet_length(json) as bytes_before
           from (select seq, json from ${events} where session_id = $1 and seq <= $2 order by seq desc limit $3) as newest
         ) as counted
         where bytes_before < $4::bigint order by seq desc`,
        sessionId,
        seq,
        PAGE_EVENTS,
        PAGE_BYTES,
      ),
    at: (sessionId, seqs) =>
      read(
        `select json from (
           select place, json, sum(octet_length(json)) over (order by place) - octet_length(json) as bytes_before
           from unnest($2::bigint[]) with ordinality as chosen (seq, place) join ${events} using (seq) where session_id = $1
         ) as counted
         where bytes_before < $3::bigint order by place`,
        sessionId,
        seqs,
        CHOSEN_BYTES,
      ),
    turningPoints: (sessionId, after, before) =>
      read(
        `with points as (
           select seq, type from ${events}
           where session_id = $1 and type in ('session_started', 'forked', 'rolled_back', 'recovery_started', 'tool_resolved')
             and seq > $2 and seq < $3
         )
         select json from ${events} where session_id = $1 and seq in (
           select seq from points
           union select (
             select max(run.seq) from ${events} run where run.session_id = $1 and run.type = 'run_started' and run.seq < points.seq
           ) from points where type in ('rolled_back', 'recovery_started')
         ) order by seq`,
        sessionId,
        after,
        before,
      ),
    async messages(sessionId, ids) {
      const which = ids ? 'said.message_id = any($2)' : 'said.turn is null'
      const rows = await query(
        `select position, json from ${schema.table('messages')} said join ${events} using (session_id, seq)
         where session_id = $1 and said.kind = 'user' and ${which} order by seq`,
        sessionId,
        ...(ids ? [ids.map((id) => safeKey(id))] : []),
      )
      return rows.flatMap((row) => {
        const event = eventIn(row)
        return event.type === 'message_received' ? [{ event, takenAt: numberIn(row, 'position') }] : []
      })
    },
    async output(sessionId, callId, before) {
      const isOutput = `type in ('tool_completed', 'tool_resolved') and seq < $3`
      const calls = schema.table('tool_calls')
      const [found] = await read(
        `select json from ${events} where session_id = $1 and ${isOutput}
           and seq = (select outcome_seq from ${calls} where session_id = $1 and call_id = $2)`,
        sessionId,
        safeKey(callId),
        before,
      )
      if (found) return found
      // A fork has no rows for the calls that it inherits.
      const [, run, turn = ''] = callId.split('_')
      const inherited = await read(
        `select json from ${events} where session_id = $1 and ${isOutput} and run = $4 and turn = $5 and strpos(json, $2) > 0
         order by seq desc limit 1`,
        sessionId,
        `"callId":${JSON.stringify(callId)}`,
        before,
        Number(run),
        Number.parseInt(turn, 10),
      )
      return inherited[0]
    },
  }
}

function eventIn(row: TextRow): SessionEvent {
  return JSON.parse(textIn(row, 'json')) as SessionEvent
}
