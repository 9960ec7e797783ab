// What `pawl doctor` measures of what sessions share: budgets, and standing approvals.
import type { Resolution } from '../../session/call-facts.ts'
import { readBudgets } from '../shared-budgets.ts'
import { numberIn, textIn } from '../postgres/columns.ts'
import type { Queryable } from '../postgres/database.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** Budgets that sessions share. */
export interface BudgetFacts {
  budgets: { id: string; spentUsd: number; maxUsd: number }[]
  /** Sessions that wait until one of them has room. */
  waiting: number
}

/** A standing approval for a tool whose newest call had another effect or input schema. */
export interface ChangedRule {
  rule: string
  agent: string
  tool: string
}

export interface RuleFacts {
  /** How many rules hold. */
  holding: number
  changed: ChangedRule[]
}

/** How many rules are compared with the newest call of their tool. */
const EXAMINED = 100
const HOLDS = 'revoked_at is null and (until is null or until > now())'

export async function budgetFacts(database: Queryable, schema: PostgresSchema): Promise<BudgetFacts> {
  const budgets = await readBudgets(database, schema)
  const [row = {}] = await database.query(
    `select count(*) as waiting from ${schema.table('sessions')} where error_code = 'budget_exhausted' and error_strategy = 'automatic'`,
  )
  return { budgets: budgets.map(({ id, spentUsd, maxUsd }) => ({ id, spentUsd, maxUsd })), waiting: numberIn(row, 'waiting') ?? 0 }
}

/** What a tool is, is recorded where its newest call was resolved. */
export async function ruleFacts(database: Queryable, schema: PostgresSchema): Promise<RuleFacts> {
  const [count = {}] = await database.query(`select count(*) as holding from ${schema.table('approval_rules')} where ${HOLDS}`)
  const rows = await database.query(
    `select rule.id, rule.agent, rule.tool, rule.effect, rule.schema_digest, newest.call_index, resolved.json
     from (select * from ${schema.table('approval_rules')} where ${HOLDS} order by given_at desc limit ${EXAMINED}) rule
     cross join lateral (
       select session_id, run, turn, call_index, issued_seq from ${schema.table('tool_calls')} call
       where call.tool = rule.tool and call.agent = rule.agent and issued_seq is not null and issued_at > rule.given_at
       order by issued_at desc limit 1
     ) newest
     cross join lateral (
       select json from ${schema.table('events')}
       where session_id = newest.session_id and seq < newest.issued_seq and type = 'model_completed' and run = newest.run and turn = newest.turn
       order by seq desc limit 1
     ) resolved`,
  )
  const changed = rows.flatMap((row) => {
    const { calls } = JSON.parse(textIn(row, 'json')) as { calls?: Pick<Resolution, 'effect' | 'schemaDigest'>[] }
    const call = calls?.[Number(row.call_index)]
    if (!call || (call.effect === row.effect && call.schemaDigest === row.schema_digest)) return []
    return [{ rule: textIn(row, 'id'), agent: textIn(row, 'agent'), tool: textIn(row, 'tool') }]
  })
  return { holding: numberIn(count, 'holding') ?? 0, changed }
}
