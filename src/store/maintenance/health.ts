// What `pawl doctor` measures in the side store: the server, its clock, the schema, and signs of trouble in the tables.
import type { Pool } from 'pg'
import type { TellWait } from '../../connect/waits.ts'
import type { Resolution } from '../../session/call-facts.ts'
import { addressOf } from '../postgres/address.ts'
import { ms, numberIn, textIn } from '../postgres/columns.ts'
import { type FeedHoldUp, readHeldUp } from '../postgres/commit-order.ts'
import { boundedReads, type Database, databaseAt, type Queryable } from '../postgres/database.ts'
import { migrationNames } from '../postgres/migrate.ts'
import { readNamespace } from '../postgres/namespace.ts'
import { type PostgresSchema, schemaOf } from '../postgres/schema.ts'
import { readOverview, readUnfinished } from '../read/lists/overview.ts'
import type { StatusOverview } from '../sums.ts'
import { consumerOf } from '../webhooks.ts'
import { shutGates, type StoredGate } from '../write/gates.ts'
import { type BudgetFacts, budgetFacts, type RuleFacts, ruleFacts } from './shared-health.ts'

/** The server. */
export interface ServerFacts {
  version: string
  /** Host, port and database. */
  address: string
  roundTripMs: number
  /** The server's time, and the local time halfway through the request for it, in milliseconds since 1970. */
  clock: { theirs: number; ours: number }
  /** Whether it refuses writes. */
  isReadOnly: boolean
}

/** The migrations of the schema. */
export interface SchemaFacts {
  applied: number
  /** Migrations that this release has and the schema lacks. */
  missing: string[]
  /** Migrations of a newer release that prevent this one from writing, and others. */
  breaking: string[]
  newer: string[]
  /** The Temporal namespace that its sessions belong to; null if none is recorded. */
  namespace: string | null
}

/** What the tables show about the workers' writes. */
export interface StorageFacts {
  /** Running sessions that have stored nothing for five minutes, longest first: at most 20, and how many there are. */
  quiet: { sessionIds: string[]; count: number; longestMs: number }
  /** Events of other chains of executions, set aside. */
  strayEvents: number
  /** Events of the last day that have no rows. */
  unprojected: number
  /** What holds up the feed. */
  heldUp: FeedHoldUp | null
}

/** An agent with open sessions. */
export interface AgentActivity {
  agent: string
  /** Sessions in `error: agent_not_served`, and when the first of them entered it. */
  unserved: number
  unservedSince: number | null
  /** What the newest of them lacks: the agent, or a tool of it. */
  unservedReason: string | null
  /** When a model last answered one of its sessions, within the last hour. */
  answeredAt: number | null
  /** Sessions that are running or waiting. */
  active: number
}

/** A model or a tool whose attempts failed within the last hour. */
export interface FailingStep {
  /** `model`, `compaction` or `tool:<name>`. */
  context: string
  /** The name of the model; null for a tool, or if no model was chosen. */
  model: string | null
  /** The agent that called the model; null for a tool, whichever agents have it. */
  agent: string | null
  /** Failed attempts, and when the newest one failed. */
  failed: number
  failedAt: number
  /** The code, or the class and message, of the newest failure. */
  newest: string
  /** Whether an attempt threw something other than a ToolError, which may be an ordinary answer. */
  isFault: boolean
  /** Successes in the same hour, and the time of the last one. */
  succeeded: number
  succeededAt: number | null
}

/** An `external` tool, of whichever origin, whose newest call had no `verify`. */
export interface UnverifiedCalls {
  tool: string
  agent: string
  /** When it was called. */
  at: number
}

/** A webhook, and what it has not delivered. */
export interface WebhookFacts {
  id: string
  /** Host and port of the target. The rest of the address may be secret. */
  host: string
  paused: boolean
  pausedBy: string | null
  lastError: string | null
  waiting: number
  /** How long the oldest of those has waited. */
  waitingMs: number
  givenUp: number
  /** How long no process has been sending its notifications; 0 if one does. */
  unattendedMs: number
}

/** Measures the store. Every method rejects with `StoreError`. */
export interface StoreHealth {
  server(): Promise<ServerFacts>
  schema(): Promise<SchemaFacts>
  storage(): Promise<StorageFacts>
  agents(): Promise<AgentActivity[]>
  /** Models and tools with failed attempts in the last hour, most failures first. */
  failing(): Promise<FailingStep[]>
  /** The `external` tools that were called within a week and have no `verify`. */
  unverified(): Promise<UnverifiedCalls[]>
  /** The accounts whose provider limits the rate, longest wait first. */
  gates(): Promise<StoredGate[]>
  /** All webhooks, those with the most notifications that wait first. */
  webhooks(): Promise<WebhookFacts[]>
  /** Budgets that sessions share. */
  budgets(): Promise<BudgetFacts>
  /** Standing approvals. */
  rules(): Promise<RuleFacts>
  /** How many sessions have each need. */
  needs(): Promise<StatusOverview['needs']>
  /** Sessions whose workflow should be open, quietest first. */
  unfinished(): Promise<string[]>
  close(): Promise<void>
}

/** Maximum number of sessions or agents that are named. */
const NAMED = 20
/** Maximum number of calls that are examined. */
const EXAMINED_CALLS = 10_000
/** Maximum number of sessions that are looked up in Temporal. */
const UNFINISHED = 50

/** Prepares the measurements; the first one connects. @throws StoreError `invalid_postgres_url`, `invalid_store_options`. */
export function storeHealth(
  postgres: string | Pool,
  { schema: name = 'pawl', onWait }: { schema?: string; onWait?: TellWait },
): StoreHealth {
  const schema = schemaOf(name)
  const database = databaseAt(postgres, { onWait })
  const address = addressOf(typeof postgres === 'string' ? { connectionString: postgres } : postgres.options)
  const reads = boundedReads(database)
  return {
    server: async () => ({ ...(await serverFacts(database)), address }),
    schema: () => schemaFacts(reads, schema),
    storage: () => storageFacts(reads, schema),
    agents: () => agentActivity(reads, schema),
    failing: () => failingSteps(reads, schema),
    unverified: () => unverifiedCalls(reads, schema),
    gates: async () => (await shutGates(reads, schema)).filter(({ forMs }) => forMs > 0).sort((one, other) => other.forMs - one.forMs),
    webhooks: () => webhookFacts(reads, schema),
    budgets: () => budgetFacts(reads, schema),
    rules: () => ruleFacts(reads, schema),
    needs: async () => (await readOverview(reads, schema, { limit: 1 })).needs,
    unfinished: async () => (await readUnfinished(reads, schema, { limit: UNFINISHED })).sessionIds,
    close: () => database.close(),
  }
}

async function serverFacts(database: Database): Promise<Omit<ServerFacts, 'address'>> {
  // The first statement also connects.
  await database.query('select 1')
  const before = Date.now()
  const [row = {}] = await database.query(
    `select current_setting('server_version') as version, (extract(epoch from clock_timestamp()) * 1000)::bigint as now,
       (pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on')::text as read_only`,
  )
  const after = Date.now()
  return {
    version: textIn(row, 'version'),
    roundTripMs: after - before,
    clock: { theirs: Number(row.now), ours: (before + after) / 2 },
    isReadOnly: row.read_only === 'true',
  }
}

async function schemaFacts(database: Queryable, schema: PostgresSchema): Promise<SchemaFacts> {
  const known = await migrationNames()
  const [table] = await database.query('select to_regclass($1) as found', [schema.table('migrations')])
  const rows = table?.found
    ? await database.query(`select name, breaking::text as breaking from ${schema.table('migrations')} order by 1`)
    : []
  const applied = rows.map((row) => textIn(row, 'name'))
  const newer = rows.filter((row) => !known.includes(textIn(row, 'name')))
  return {
    applied: applied.length,
    missing: known.filter((name) => !applied.includes(name)),
    breaking: newer.filter(({ breaking }) => breaking === 'true').map((row) => textIn(row, 'name')),
    newer: newer.map((row) => textIn(row, 'name')),
    namespace: await readNamespace(database, schema),
  }
}

async function storageFacts(database: Queryable, schema: PostgresSchema): Promise<StorageFacts> {
  const [quiet, [stray], [unprojected], heldUp] = await Promise.all([
    database.query(
      `select session_id, count(*) over () as quiet, (extract(epoch from now() - flushed_at) * 1000)::bigint as for_ms
       from ${schema.table('sessions')} where status = 'running' and flushed_at < now() - interval '5 minutes'
       order by flushed_at limit ${NAMED}`,
    ),
    database.query(`select count(*) as events from ${schema.table('stray_events')}`),
    database.query(
      `select count(*) as events from ${schema.table('events')}
       where adjusted is not null and at > now() - interval '1 day' and adjusted @? '$[*].problem'`,
    ),
    readHeldUp(database, schema),
  ])
  return {
    quiet: {
      sessionIds: quiet.map((row) => textIn(row, 'session_id')),
      count: Number(quiet[0]?.quiet ?? 0),
      longestMs: Number(quiet[0]?.for_ms ?? 0),
    },
    strayEvents: Number(stray?.events ?? 0),
    unprojected: Number(unprojected?.events ?? 0),
    heldUp,
  }
}

async function agentActivity(database: Queryable, schema: PostgresSchema): Promise<AgentActivity[]> {
  const rows = await database.query(
    `select agent, coalesce(unserved, 0) as unserved, (extract(epoch from unserved_since) * 1000)::bigint as unserved_since,
       unserved_reason, ${ms('answered_at')}, coalesce(active, 0) as active
     from (
       select agent, count(*) filter (where error_code = 'agent_not_served') as unserved, count(*) filter (where status <> 'error') as active,
         min(updated_at) filter (where error_code = 'agent_not_served') as unserved_since,
         (array_agg(left(error ->> 'reason', 300) order by updated_at desc) filter (where error_code = 'agent_not_served'))[1] as unserved_reason
       from ${schema.table('sessions')} where status in ('error', 'running', 'waiting') group by 1
     ) open full join (
       select agent, max(at) as answered_at from ${schema.table('token_usage')} where at > now() - interval '1 hour' group by 1
     ) answered using (agent)
     order by unserved desc, active desc, agent limit ${NAMED}`,
  )
  return rows.map((row) => ({
    agent: textIn(row, 'agent'),
    unserved: Number(row.unserved),
    unservedSince: numberIn(row, 'unserved_since'),
    unservedReason: row.unserved_reason ?? null,
    answeredAt: numberIn(row, 'answered_at'),
    active: Number(row.active),
  }))
}

/** Whether a tool has a `verify` is recorded where its call was resolved. */
async function unverifiedCalls(database: Queryable, schema: PostgresSchema): Promise<UnverifiedCalls[]> {
  const rows = await database.query(
    `select newest.tool, newest.agent, newest.call_index, ${ms('issued_at')}, resolved.json
     from (
       select distinct on (tool, agent) * from (
         select tool, agent, session_id, run, turn, call_index, issued_seq, issued_at, effect from ${schema.table('tool_calls')}
         where issued_at > now() - interval '7 days' order by issued_at desc limit ${EXAMINED_CALLS}
       ) recent
       where effect = 'external' and issued_seq is not null order by tool, agent, issued_at desc limit ${NAMED}
     ) newest cross join lateral (
       select json from ${schema.table('events')}
       where session_id = newest.session_id and seq < newest.issued_seq and type = 'model_completed' and run = newest.run and turn = newest.turn
       order by seq desc limit 1
     ) resolved`,
  )
  return rows.flatMap((row) => {
    const { calls } = JSON.parse(textIn(row, 'json')) as { calls?: Pick<Resolution, 'verify' | 'client'>[] }
    const call = calls?.[Number(row.call_index)]
    // Only its client knows what became of a client tool's call.
    if (!call || call.verify || call.client) return []
    return [{ tool: textIn(row, 'tool'), agent: textIn(row, 'agent'), at: Number(row.issued_at) }]
  })
}

async function webhookFacts(database: Queryable, schema: PostgresSchema): Promise<WebhookFacts[]> {
  const rows = await database.query(
    `select w.id, w.url, (w.paused_at is not null)::text as paused, w.paused_by, w.last_error, coalesce(d.waiting, 0) as waiting,
       greatest(0, extract(epoch from now() - d.oldest) * 1000)::bigint as waiting_ms, coalesce(d.given_up, 0) as given_up,
       greatest(0, extract(epoch from now() - greatest(c.held_until, w.created_at)) * 1000)::bigint as unattended_ms
     from ${schema.table('webhooks')} w
     left join (
       select webhook_id, count(*) filter (where given_up_at is null) as waiting, min(queued_at) filter (where given_up_at is null) as oldest,
         count(given_up_at) as given_up
       from ${schema.table('webhook_deliveries')} group by 1
     ) d on d.webhook_id = w.id
     left join ${schema.table('consumers')} c on c.name = $1 || w.id
     order by waiting desc, w.id`,
    [consumerOf('')],
  )
  return rows.map((row) => ({
    id: textIn(row, 'id'),
    host: new URL(textIn(row, 'url')).host,
    paused: row.paused === 'true',
    pausedBy: row.paused_by ?? null,
    lastError: row.last_error ?? null,
    waiting: Number(row.waiting),
    waitingMs: Number(row.waiting_ms ?? 0),
    givenUp: Number(row.given_up),
    unattendedMs: Number(row.unattended_ms ?? 0),
  }))
}

async function failingSteps(database: Queryable, schema: PostgresSchema): Promise<FailingStep[]> {
  const rows = await database.query(
    `with failed as (
       select context, model, case when context not like 'tool:%' then agent end as agent, count(*) as failed, max(at) as failed_at,
         bool_or(class <> 'ToolError') as is_fault,
         (array_agg(coalesce(code, class) || ': ' || left(message, 200) order by at desc))[1] as newest
       from ${schema.table('errors')}
       -- A worker that dies while a model answers says nothing about the provider.
       where attempt is not null and at > now() - interval '1 hour' and (class not in ('WorkerDied', 'HeartbeatTimeout') or context like 'tool:%') group by 1, 2, 3
     ), succeeded as (
       select coalesce(purpose, 'model') as context, model, agent, count(*) as succeeded, max(at) as succeeded_at
       from ${schema.table('token_usage')} where at > now() - interval '1 hour' group by 1, 2, 3
       union all
       select 'tool:' || tool, null, null, count(*), max(completed_at) from ${schema.table('tool_calls')}
       where issued_at > now() - interval '1 hour' and status = 'completed' and 'tool:' || tool in (select context from failed) group by 1
     )
     select failed.context, failed.model, failed.agent, failed, ${ms('failed_at')}, newest, is_fault::text as is_fault,
       coalesce(succeeded, 0) as succeeded, ${ms('succeeded_at')}
     from failed left join succeeded on succeeded.context = failed.context and succeeded.model is not distinct from failed.model
       and succeeded.agent is not distinct from failed.agent
     order by failed desc, failed.context limit ${NAMED}`,
  )
  return rows.map((row) => ({
    context: textIn(row, 'context'),
    model: row.model ?? null,
    agent: row.agent ?? null,
    failed: Number(row.failed),
    failedAt: Number(row.failed_at),
    newest: textIn(row, 'newest'),
    isFault: row.is_fault === 'true',
    succeeded: Number(row.succeeded),
    succeededAt: numberIn(row, 'succeeded_at'),
  }))
}
