// Standing approvals as rows. Those for a context are decided here: whether they still hold, and how often they were used.
import type { Approvers, Effect } from '../session/call-facts.ts'
import { defined } from '../session/defined.ts'
import type { JsonObject } from '../session/json.ts'
import type { RuleForContext, RuleMatching, RuleTerms } from '../session/standing/facts.ts'
import { dateIn, dateOrNull, jsonIn, ms, numberIn, textIn } from './postgres/columns.ts'
import type { Database, Queryable, TextRow } from './postgres/database.ts'
import { safeKey } from './postgres/sanitise.ts'
import type { PostgresSchema } from './postgres/schema.ts'
import { excludeErasure } from './write/erased.ts'

/** A standing approval. */
export interface ApprovalRule {
  /** Its id. */
  id: string
  /** The session whose call was approved when it was given. */
  sessionId: string
  /** The call. */
  callId: string
  /** The agent's name. */
  agent: string
  /** The tool whose calls it approves. */
  tool: string
  /** `session`: calls of that session; `context`: calls of the agent's sessions whose contexts have these `members`. */
  for: 'session' | 'context'
  /** The members of the context, with their values; null for a session. */
  members: JsonObject | null
  /** Which calls. */
  matching: RuleMatching
  /** Under which approvers it was given, the only ones that it satisfies; null: none were named. */
  approvers: Approvers | null
  /** Until when it applies; null: no end. */
  until: Date | null
  /** How many calls it approves; null: any number. */
  uses: number | null
  /** How many it has approved, as far as that is stored. */
  used: number
  /** When it was given. */
  givenAt: Date
  /** By whom. */
  givenBy: string | null
  /** The person's note. */
  note: string | null
  /** When it was revoked; null: it was not. */
  revokedAt: Date | null
  /** By whom: a person, or `rollback` if the session went back behind it. */
  revokedBy: string | null
}

/** Which rules to list. */
export interface ApprovalRuleFilter {
  session?: string
  agent?: string
  tool?: string
  idPrefix?: string
  /** Also those that were revoked, have ended or are used up. */
  all?: boolean
  limit: number
}

/** A rule for a context, and the calls that it may approve, the longest wait first. */
export interface RuleAndWaiting {
  rule: RuleForContext
  calls: { sessionId: string; callId: string; digest: string }[]
}

export type RuleUse = 'used' | 'revoked' | 'expired' | 'used_up'

/** The rules. Every method rejects with `StoreError`. */
export interface StoredRules {
  /** Newest first. */
  list(filter: ApprovalRuleFilter): Promise<ApprovalRule[]>
  find(id: string): Promise<ApprovalRule | null>
  /** Those for contexts that may approve a call of the tool, oldest first. */
  ofContext(of: {
    agent: string
    tool: string
    tenant: string | null
  }): Promise<(RuleTerms & { rule: string; members: JsonObject; used: number; by?: string })[]>
  /** Counts a use of a rule for a context, once for each call, if the rule still holds. */
  use(of: { rule: string; sessionId: string; callId: string }): Promise<RuleUse>
  /** A rule for a context, with the calls of its agent's sessions that wait and that it may approve; null if no such rule holds. */
  waiting(rule: string): Promise<RuleAndWaiting | null>
  /** Revokes a rule for a context; null if there is none. A rule that was revoked before stays as it is. */
  revoke(id: string, by: string | undefined): Promise<ApprovalRule | null>
}

type Run = <T>(work: () => Promise<T>) => Promise<T>

const COLUMNS = `id, session_id, call_id, agent, tool, scope, members, matching, role, ${ms('until')}, uses, ${ms('given_at')}, given_by, note,
  ${ms('revoked_at')}, revoked_by`
/** The tag that names a session's tenant. */
const TENANT = `(select tag from unnest(s.tags) with ordinality as listed(tag, n) where starts_with(tag, 'tenant:') order by n limit 1)`
/** More calls than that wait for a person, as before. */
const MAX_WAITING = 1_000
const HOLDS = 'revoked_at is null and (until is null or until > now())'

export function storedRulesOf(database: Database, schema: PostgresSchema, writing: Run, reading: Run): StoredRules {
  const table = schema.table('approval_rules')
  const usesTable = schema.table('approval_uses')
  /** Rules of a session count what the session records; those for a context, what the store has admitted. */
  const select = `select ${COLUMNS}, case when scope = 'context' then used else (
      select count(*) from ${schema.table('approvals')} a where a.session_id = rule.session_id and a.rule = rule.id
    ) end as used from ${table} rule`

  async function rows(where: string, values: unknown[]): Promise<ApprovalRule[]> {
    return (await database.query(`${select} where ${where}`, values)).map(ruleOf)
  }

  async function use(tx: Queryable, id: string, sessionId: string, callId: string): Promise<RuleUse> {
    await excludeErasure(tx, schema, sessionId)
    // Uses of the same rule follow one another. The next statements see what the one before has committed.
    const [rule] = await tx.query(
      `select uses, used, (revoked_at is not null)::int as revoked, (until is not null and until <= now())::int as expired
       from ${table} where id = $1 and scope = 'context' for update`,
      [id],
    )
    const known = await tx.query(`select 1 from ${usesTable} where rule_id = $1 and session_id = $2 and call_id = $3`, [
      id,
      sessionId,
      callId,
    ])
    if (known.length > 0) return 'used'
    if (!rule || numberIn(rule, 'revoked') === 1) return 'revoked'
    if (numberIn(rule, 'expired') === 1) return 'expired'
    const uses = numberIn(rule, 'uses')
    if (uses !== null && (numberIn(rule, 'used') ?? 0) >= uses) return 'used_up'
    await tx.query(
      // Nothing of an erased session is stored.
      `with used as (insert into ${usesTable} (rule_id, session_id, call_id) select $1, $2, $3 where not exists (
         select from ${schema.table('sessions')} erased where erased.session_id = $2 and erased_at is not null))
       update ${table} set used = used + 1 where id = $1`,
      [id, sessionId, callId],
    )
    return 'used'
  }

  async function waiting(id: string): Promise<RuleAndWaiting | null> {
    const [row] = await database.query(
      `select ${COLUMNS}, used, effect, schema_digest, input_digest, tenant from ${table} where id = $1 and scope = 'context' and ${HOLDS}`,
      [id],
    )
    if (!row) return null
    const { used: _, ...terms } = contextRuleOf(row)
    const calls = await database.query(
      `select waiting.session_id, waiting.call_id, waiting.digest from ${schema.table('approvals')} waiting
         join ${schema.table('sessions')} s using (session_id), ${table} rule
       where rule.id = $1 and waiting.status = 'requested' and waiting.agent = rule.agent and waiting.tool = rule.tool
         and waiting.role is not distinct from rule.role and s.context @> rule.members and s.status <> 'closed'
         and ${TENANT} is not distinct from rule.tenant
       order by waiting.requested_at, waiting.session_id, waiting.seq limit ${MAX_WAITING}`,
      [id],
    )
    return {
      rule: { ...terms, agent: textIn(row, 'agent'), tenant: row.tenant ?? null },
      calls: calls.map((call) => ({
        sessionId: textIn(call, 'session_id'),
        callId: textIn(call, 'call_id'),
        digest: textIn(call, 'digest'),
      })),
    }
  }

  return {
    list: ({ session, agent, tool, idPrefix, all, limit }) =>
      reading(async () => {
        const values: unknown[] = []
        const value = (one: unknown): string => `$${values.push(one)}`
        const where = [
          'true',
          ...(session === undefined ? [] : [`session_id = ${value(safeKey(session))}`]),
          ...(agent === undefined ? [] : [`agent = ${value(safeKey(agent))}`]),
          ...(tool === undefined ? [] : [`tool = ${value(safeKey(tool))}`]),
          ...(idPrefix === undefined ? [] : [`starts_with(session_id, ${value(safeKey(idPrefix))})`]),
          ...(all ? [] : [HOLDS]),
        ]
        const found = `select * from (${select} where ${where.join(' and ')}) found`
        const left = all ? '' : 'where uses is null or used < uses'
        return (await database.query(`${found} ${left} order by given_at desc, id limit ${value(limit)}`, values)).map(ruleOf)
      }),
    find: (id) => reading(async () => (await rows('id = $1', [safeKey(id)]))[0] ?? null),
    ofContext: ({ agent, tool, tenant }) =>
      reading(async () =>
        (
          await database.query(
            `select ${COLUMNS}, used, effect, schema_digest, input_digest from ${table}
             where scope = 'context' and agent = $1 and tool = $2 and tenant is not distinct from $3::text and ${HOLDS}
               and (uses is null or used < uses) order by given_at, id limit 1000`,
            [safeKey(agent), safeKey(tool), tenant === null ? null : safeKey(tenant)],
          )
        ).map(contextRuleOf),
      ),
    use: ({ rule, sessionId, callId }) =>
      writing(() => database.transaction((tx) => use(tx, safeKey(rule), safeKey(sessionId), safeKey(callId)))),
    waiting: (id) => reading(() => waiting(safeKey(id))),
    revoke: (id, by) =>
      writing(async () => {
        await database.query(
          `update ${table} set revoked_at = now(), revoked_by = $2 where id = $1 and scope = 'context' and revoked_at is null`,
          [safeKey(id), by === undefined ? null : safeKey(by)],
        )
        return (await rows('id = $1', [safeKey(id)]))[0] ?? null
      }),
  }
}

function ruleOf(row: TextRow): ApprovalRule {
  const role = row.role ?? null
  return {
    id: textIn(row, 'id'),
    sessionId: textIn(row, 'session_id'),
    callId: textIn(row, 'call_id'),
    agent: textIn(row, 'agent'),
    tool: textIn(row, 'tool'),
    for: textIn(row, 'scope') as 'session' | 'context',
    members: jsonIn(row, 'members') as JsonObject | null,
    matching: jsonIn(row, 'matching') as RuleMatching,
    approvers: role === null ? null : { role },
    until: dateOrNull(row, 'until'),
    uses: numberIn(row, 'uses'),
    used: numberIn(row, 'used') ?? 0,
    givenAt: dateIn(row, 'given_at'),
    givenBy: row.given_by ?? null,
    note: row.note ?? null,
    revokedAt: dateOrNull(row, 'revoked_at'),
    revokedBy: row.revoked_by ?? null,
  }
}

function contextRuleOf(row: TextRow): Awaited<ReturnType<StoredRules['ofContext']>>[number] {
  const { id: rule, tool, members, matching, approvers, until, uses, used, givenBy } = ruleOf(row)
  return {
    rule,
    tool,
    members: members ?? {},
    matching,
    used,
    effect: textIn(row, 'effect') as Effect,
    schemaDigest: textIn(row, 'schema_digest'),
    ...defined({
      inputDigest: row.input_digest ?? undefined,
      approvers: approvers ?? undefined,
      until: until?.getTime(),
      uses: uses ?? undefined,
      by: givenBy ?? undefined,
    }),
  }
}
