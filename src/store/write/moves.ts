// Events that remove rows from the transcript: the rows are archived, never deleted.
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import { type Cut, cutOf } from '../../session/past/cut.ts'
import { forgottenCalls } from '../../session/past/forgotten.ts'
import type { Queryable } from '../postgres/database.ts'
import { abandonedApproval } from '../project/approvals.ts'
import { ABANDONED, NEVER_RESOLVED, UNDONE } from '../project/abandoned-calls.ts'
import type { Move } from '../project/projections.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'

/** Carries out a move after the rows up to it are written. `archiveCheckpoints` handles checkpoints. */
export async function applyMove(tx: Queryable, schema: PostgresSchema, key: string, move: Move): Promise<void> {
  const { event } = move
  if (event.type === 'session_started') return startOver(tx, schema, key, event)
  if (event.type === 'forked') return becomeFork(tx, schema, key, event)
  if (event.type === 'messages_unscheduled') return unschedule(tx, schema, key, event)
  const cut = await cutIn(tx, schema, key, move)
  if (!cut) return
  const why = event.type === 'rolled_back' ? 'rolled_back' : ARCHIVED_AS[event.strategy as keyof typeof ARCHIVED_AS]
  await applyCut(tx, schema, key, cut, why)
  if (event.type !== 'rolled_back') return
  await discardSlices(tx, schema, key, event)
  await revokeLaterRules(tx, schema, key, event)
  if (event.keys === 'forgotten') await forgetUnresolved(tx, schema, key, event)
}

/** Marks the checkpoints after the point that the session went back to. */
export async function archiveCheckpoints(tx: Queryable, schema: PostgresSchema, key: string, move: Move): Promise<void> {
  const cut = await cutIn(tx, schema, key, move)
  // The store may lack the beginning of a run: after a rebuild, its events may begin later.
  if (!cut || cut.outcomes || cut.after < 0) return
  await tx.query(
    `update ${schema.table('checkpoints')} set archived_seq = $2
     where session_id = $1 and up_to_seq > $3 and up_to_seq < $2 and archived_seq is null`,
    [key, cut.at, cut.after],
  )
}

const ARCHIVED_AS = {
  restart_run: 'restarted',
  abandon: 'abandoned',
  restart_from_last_effect: 'recovered',
  selective: 'recovered',
} as const

/** What the event removes. */
async function cutIn(tx: Queryable, schema: PostgresSchema, key: string, { event, run }: Move): Promise<Cut | undefined> {
  // Only recoveries depend on where the newest run began.
  const [started] =
    event.type === 'recovery_started'
      ? await tx.query(
          `select max(seq) as seq from ${schema.table('events')} where session_id = $1 and type = 'run_started' and run = $2`,
          [key, run],
        )
      : []
  return cutOf(event, { run, seq: Number(started?.seq ?? 0) })
}

/** Archives the messages that the cut removes, or returns them to the queue. */
async function applyCut(tx: Queryable, schema: PostgresSchema, key: string, cut: Cut, why: string): Promise<void> {
  const { at, after, run, outcomes, taken, waiting, again } = cut
  // The turn whose calls a person chose gets a new message with results.
  if (outcomes) {
    const which = `kind = 'tool_results' and position = $4 and seq < $2`
    return archive(tx, schema, { key, seq: at, why, which, values: [after] })
  }
  const ofRun = run === undefined || taken === 'leave' ? '' : ' and run = $7'
  const values = [after, waiting, again, ...(ofRun ? [run] : [])]
  const leaves = taken === 'leave' ? '' : ` and kind <> 'user'`
  const which = `((position > $4${leaves}${ofRun}) or (position is null and kind <> 'scheduled' and seq <= $5)) and seq <> all($6::bigint[])`
  await archive(tx, schema, { key, seq: at, why, which, values })
  if (taken === 'wait') await requeueMessages(tx, schema, key, 'run = $2', run)
  if (again.length > 0) await requeueMessages(tx, schema, key, 'seq = any($2::bigint[])', again)
}

async function unschedule(tx: Queryable, schema: PostgresSchema, key: string, event: EventOf<'messages_unscheduled'>): Promise<void> {
  const { seq, messageIds } = event
  const which = `kind = 'scheduled' and message_id = any($4::text[])`
  await archive(tx, schema, { key, seq, why: 'unscheduled', which, values: [messageIds.map((id) => safeKey(id))] })
}

/** Returns users' messages to the queue, for a run to take again. */
async function requeueMessages(tx: Queryable, schema: PostgresSchema, key: string, which: string, value: unknown): Promise<void> {
  await tx.query(
    `update ${schema.table('messages')} set run = null, turn = null, position = null, ordinal = 0
     where session_id = $1 and kind = 'user' and ${which}`,
    [key, value],
  )
}

/** A call whose effect was undone needs no resolution. */
async function forgetUnresolved(tx: Queryable, schema: PostgresSchema, key: string, event: EventOf<'rolled_back'>): Promise<void> {
  const { seq, toSeq } = event
  await tx.query(
    `update ${schema.table('tool_calls')} set error = $2::jsonb
     where session_id = $1 and status = 'unknown' and error ->> 'asked' = 'true'
       and (call_id = any($3::text[]) or (issued_seq > $4 and issued_seq < $5))`,
    [key, JSON.stringify(UNDONE), forgottenCalls(event).map((callId) => safeKey(callId)), toSeq, seq],
  )
}

/**
 * Calls that stay keep their newest outcome, but slices at earlier checkpoints contain an older one: discards those after the call's
 * answer.
 */
async function discardSlices(tx: Queryable, schema: PostgresSchema, key: string, { seq, toSeq }: EventOf<'rolled_back'>): Promise<void> {
  await tx.query(
    `delete from ${schema.table('slices')} where session_id = $1 and seq < $2 and seq > (
       select min(answer.position) from ${schema.table('messages')} answer
       join ${schema.table('tool_calls')} call on call.session_id = answer.session_id and call.run = answer.run and call.turn = answer.turn
       where answer.session_id = $1 and answer.kind = 'assistant' and call.outcome_seq > $3 and call.outcome_seq < $2)`,
    [key, seq, toSeq],
  )
}

/** A person gave them about something that the session takes back. */
async function revokeLaterRules(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  { seq, toSeq, at }: EventOf<'rolled_back'>,
): Promise<void> {
  await tx.query(
    `update ${schema.table('approval_rules')} set revoked_at = $4, revoked_by = 'rollback'
     where session_id = $1 and seq > $2 and seq < $3 and revoked_at is null`,
    [key, toSeq, seq, new Date(at).toISOString()],
  )
}

/** The earlier events can no longer be read: their remaining rows leave the transcript. */
async function startOver(tx: Queryable, schema: PostgresSchema, key: string, event: EventOf<'session_started'>): Promise<void> {
  const { seq, agent, context, tags } = event
  await archive(tx, schema, { key, seq, why: 'started_over', which: 'seq < $4', values: [seq] })
  await tx.query(
    `update ${schema.table('approval_rules')} set revoked_at = $3, revoked_by = 'started over'
     where session_id = $1 and scope = 'session' and seq < $2 and revoked_at is null`,
    [key, seq, new Date(event.at).toISOString()],
  )
  await abandonCalls(tx, schema, key, event)
  await identify(tx, schema, key, { agent, context, tags }, event.at)
}

/** Abandons calls and requests of any run, like `projectCall` and `projectApproval`. */
async function abandonCalls(tx: Queryable, schema: PostgresSchema, key: string, { seq, at }: SessionEvent): Promise<void> {
  const values = [abandonedApproval(at), NEVER_RESOLVED, ABANDONED].map((value) => JSON.stringify(value))
  const moment = new Date(at).toISOString()
  await tx.query(
    `update ${schema.table('tool_calls')} set waiting_until = null, outcome_seq = $2, completed_at = $3, raw_outcome = null,
       attempt = recorded_attempt,
       approval = case when status = 'awaiting_approval' then coalesce(approval, '{}') || $4::jsonb else approval end,
       error = case when status = 'unknown' then $5::jsonb else $6::jsonb end,
       status = case when status in ('awaiting_approval', 'awaiting_answer') or effect = 'read' then 'skipped'
         when effect = 'idempotent' then 'failed' else 'unknown' end
     where session_id = $1 and (status in ('issued', 'running', 'awaiting_approval', 'awaiting_answer', 'asleep')
       or (status = 'unknown' and error ->> 'asked' = 'true'))`,
    [key, seq, moment, ...values],
  )
  await tx.query(`update ${schema.table('approvals')} set status = $2, decided_at = $3 where session_id = $1 and status = 'requested'`, [
    key,
    ABANDONED.code,
    moment,
  ])
}

/** The past is another session's, and counts only there: removes rows that were stored as this session's own. */
async function becomeFork(tx: Queryable, schema: PostgresSchema, key: string, event: EventOf<'forked'>): Promise<void> {
  const { seq, tags, at } = event
  await archive(tx, schema, { key, seq, why: 'forked', which: 'position is null and seq < $4', values: [seq] })
  const counted = ['tool_calls', 'errors', 'token_usage', 'approvals', 'recoveries', 'custom_events', 'spend', 'approval_rules']
  const deletes = counted.map((table) => `${table}_left as (delete from ${schema.table(table)} where session_id = $1)`)
  await tx.query(`with ${deletes.join(', ')} select 1`, [key])
  const [row] = await tx.query(`select agent, context, to_json(tags) as tags, raw from ${schema.table('sessions')} where session_id = $1`, [
    key,
  ])
  if (!row) return
  const held = row.raw
    ? (JSON.parse(row.raw) as Identity)
    : { agent: row.agent ?? '', context: JSON.parse(row.context ?? 'null') as Json, tags: JSON.parse(row.tags ?? '[]') as string[] }
  await identify(tx, schema, key, { ...held, ...(tags && { tags }) }, at)
}

/** The data of a session's first event. */
interface Identity {
  agent: string
  context: Json
  tags: string[]
}

async function identify(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  { agent, context, tags }: Identity,
  createdAt: number,
): Promise<void> {
  const safe = sanitiser()
  const values = [key, safe.key(agent), safe.json(context), tags.map((tag) => safe.key(tag)), new Date(createdAt).toISOString()]
  await tx.query(
    `update ${schema.table('sessions')} set agent = $2, context = $3::jsonb, tags = $4, created_at = $5, raw = $6 where session_id = $1`,
    [...values, safe.raw({ agent, context, tags })],
  )
}

const MOVED = `session_id, seq, message_id, agent, run, turn, role, kind, content, metadata, by, position, ordinal, at, scheduled_for, call_ids,
  blobs, raw`

/** Moves messages to the archive; `which` has its values from `$4` on. */
async function archive(
  tx: Queryable,
  schema: PostgresSchema,
  { key, seq, why, which, values }: { key: string; seq: number; why: string; which: string; values: unknown[] },
): Promise<void> {
  await tx.query(
    `with moved as (delete from ${schema.table('messages')} where session_id = $1 and ${which} returning *)
     insert into ${schema.table('archived_messages')} (epoch, archived_seq, why, ${MOVED})
     select events.epoch, $2, $3, ${MOVED.split(/,\s+/)
       .map((column) => `moved.${column}`)
       .join(', ')}
     from moved join ${schema.table('events')} events using (session_id, seq) on conflict do nothing`,
    [key, seq, why, ...values],
  )
}
