// Budgets over many sessions: their limits, what was spent of them, and what workers have set aside. Times are those of the database's clock.
import { WARNED_AT } from '../session/spending/budget.ts'
import { dateIn, dateOrNull, ms, numberIn, textIn } from './postgres/columns.ts'
import type { Database, Queryable, TextRow } from './postgres/database.ts'
import { safeKey } from './postgres/sanitise.ts'
import type { PostgresSchema } from './postgres/schema.ts'

/** A budget over many sessions, and how much of it is spent in the current period. */
export interface SharedBudget {
  /** Its id: the period, and the tag or the agent. */
  id: string
  /** It counts sessions with this tag; null: those of `agent`. */
  tag: string | null
  /** It counts sessions of this agent; null: those with `tag`. */
  agent: string | null
  /** US dollars in each period. */
  maxUsd: number
  /** The period. */
  per: 'day' | 'month'
  /** The time zone in which a day begins. */
  timeZone: string
  /** While the side store is unavailable: `continue` and count later, or `stop` before the next model call. */
  onOutage: 'continue' | 'stop'
  /** When the current period began. */
  from: Date
  /** When it ends. */
  until: Date
  /** US dollars spent in it, according to the stored events. */
  spentUsd: number
  /** US dollars that workers have set aside for model calls. */
  reservedUsd: number
  /** When four fifths were spent in this period; null: they are not. */
  warnedAt: Date | null
  /** When it was set. */
  setAt: Date
  /** By whom. */
  setBy: string | null
}

export type BudgetTerms = Pick<SharedBudget, 'id' | 'tag' | 'agent' | 'maxUsd' | 'per' | 'timeZone' | 'onOutage'>

/** What a worker asks of a budget. */
export interface BatchRequest {
  id: string
  /** The worker. */
  holder: string
  /** What its calls in progress may cost, and what it has spent so recently that it may not be stored yet. */
  heldUsd: number
  /** What the next call needs. */
  needUsd: number
  /** How long the batch is set aside. */
  forMs: number
}

export interface BatchAnswer {
  /** What the worker may spend; 0 if too little is left for the call. */
  grantedUsd: number
  maxUsd: number
  spentUsd: number
  until: Date
  /** Four fifths are spent, and nobody has been warned in this period. */
  warns: boolean
}

/** Shared budgets. Every method rejects with `StoreError`. */
export interface StoredBudgets {
  set(terms: BudgetTerms, by: string | undefined): Promise<SharedBudget>
  list(): Promise<SharedBudget[]>
  /** Returns whether there was one. */
  remove(id: string): Promise<boolean>
  /** The limits alone. */
  terms(): Promise<BudgetTerms[]>
  /** Sets a batch aside for a worker, in place of its earlier one; null if there is no such budget. */
  take(request: BatchRequest): Promise<BatchAnswer | null>
}

type Run = <T>(work: () => Promise<T>) => Promise<T>

/** The part of a budget that a worker sets aside at a time, if its next call does not need more. */
export const BATCH_SHARE = 0.02

/** The parts of the statements about budgets. */
function sqlOf(schema: PostgresSchema) {
  const table = schema.table('shared_budgets')
  const batches = schema.table('shared_batches')
  const begin = `date_trunc(budget.per, now(), budget.time_zone)`
  const end = `((date_trunc(budget.per, now() at time zone budget.time_zone) + ('1 ' || budget.per)::interval) at time zone budget.time_zone)`
  const isOfBudget = `(budget.agent is not null and spend.agent = budget.agent) or (budget.tag is not null and exists (
      select from ${schema.table('sessions')} s where s.session_id = spend.session_id and s.tags @> array[budget.tag]))`
  const sumOf = (which: string): string =>
    `coalesce((select sum(spend.usd) from ${schema.table('spend')} spend where spend.at >= ${begin} and (${isOfBudget}) and ${which}), 0)`
  const erased = `case when budget.erased_at >= ${begin} then budget.erased_usd else 0 end`
  /** What sessions have spent since the beginning of the period, according to their stored events, and those that were erased since. */
  const spent = `${sumOf('true')} + ${erased}`
  const of = (column: string): string => `budget.${column}`
  const terms = `${['id', 'tag', 'agent', 'max_usd', 'per', 'time_zone', 'on_outage'].map(of).join(', ')}`
  return { table, batches, begin, end, sumOf, erased, spent, terms }
}

/** Budgets, by id, with what is spent of them. */
export async function readBudgets(
  database: Queryable,
  schema: PostgresSchema,
  where = 'true',
  values: unknown[] = [],
): Promise<SharedBudget[]> {
  const { table, batches, begin, end, spent, terms } = sqlOf(schema)
  const rows = await database.query(
    `select id, tag, agent, max_usd, per, time_zone, on_outage, ${ms('begins')}, ${ms('ends')}, spent, reserved, ${ms('warned_at')}, ${ms('set_at')}, set_by
       from (
         select ${terms}, ${begin} as begins, ${end} as ends, ${spent} as spent, budget.set_at, budget.set_by,
           case when budget.warned_at >= ${begin} then budget.warned_at end as warned_at,
           coalesce((select sum(usd) from ${batches} batch where batch.budget_id = budget.id and batch.until > now()), 0) as reserved
         from ${table} budget where ${where}
       ) shown order by id`,
    values,
  )
  return rows.map(budgetOf)
}

/** Adds what a session has spent to its shared budgets, before its rows are erased: an erasure must not free any of a budget. */
export async function keepSpent(tx: Queryable, schema: PostgresSchema, key: string): Promise<void> {
  const { table, sumOf, erased } = sqlOf(schema)
  const spent = sumOf('spend.session_id = $1')
  await tx.query(`update ${table} budget set erased_usd = ${erased} + ${spent}, erased_at = now() where ${spent} > 0`, [key])
}

export function storedBudgetsOf(database: Database, schema: PostgresSchema, writing: Run, reading: Run): StoredBudgets {
  const { table, batches, begin, end, spent, terms } = sqlOf(schema)

  async function take(tx: Queryable, { id, holder, heldUsd, needUsd, forMs }: BatchRequest): Promise<BatchAnswer | null> {
    // Workers that ask for the same budget follow one another.
    const locked = await tx.query(`select 1 from ${table} where id = $1 for update`, [safeKey(id)])
    if (locked.length === 0) return null
    const [row = {}] = await tx.query(
      `select max_usd, spent, others, ${ms('ends')}, warned from (
         select budget.max_usd, ${spent} as spent, ${end} as ends, (budget.warned_at >= ${begin})::int as warned,
           coalesce((select sum(usd) from ${batches} batch where batch.budget_id = budget.id and batch.holder <> $2 and batch.until > now()), 0) as others
         from ${table} budget where budget.id = $1
       ) counted`,
      [safeKey(id), holder],
    )
    const [maxUsd, spentUsd, others] = [numberIn(row, 'max_usd') ?? 0, numberIn(row, 'spent') ?? 0, numberIn(row, 'others') ?? 0]
    const left = maxUsd - spentUsd - others - heldUsd
    const grantedUsd = left < needUsd ? 0 : Math.min(left, Math.max(needUsd, maxUsd * BATCH_SHARE))
    const warns = spentUsd >= maxUsd * WARNED_AT && numberIn(row, 'warned') !== 1
    await tx.query(
      `insert into ${batches} (budget_id, holder, usd, until) values ($1, $2, $3, now() + make_interval(secs => $4::float8 / 1000))
       on conflict (budget_id, holder) do update set usd = excluded.usd, until = excluded.until`,
      [safeKey(id), holder, heldUsd + grantedUsd, forMs],
    )
    if (warns) await tx.query(`update ${table} set warned_at = now() where id = $1`, [safeKey(id)])
    await tx.query(`delete from ${batches} where until < now()`)
    return { grantedUsd, maxUsd, spentUsd, until: dateIn(row, 'ends'), warns }
  }

  return {
    set: ({ id, tag, agent, maxUsd, per, timeZone, onOutage }, by) =>
      writing(async () => {
        await database.query(
          `insert into ${table} (id, tag, agent, max_usd, per, time_zone, on_outage, set_by) values ($1, $2, $3, $4, $5, $6, $7, $8)
           on conflict (id) do update set max_usd = excluded.max_usd, time_zone = excluded.time_zone, on_outage = excluded.on_outage,
             set_by = excluded.set_by, set_at = now(), warned_at = null`,
          [safeKey(id), tag && safeKey(tag), agent, maxUsd, per, timeZone, onOutage, by === undefined ? null : safeKey(by)],
        )
        return (await readBudgets(database, schema, 'budget.id = $1', [safeKey(id)]))[0] as SharedBudget
      }),
    list: () => reading(() => readBudgets(database, schema)),
    remove: (id) => writing(async () => (await database.query(`delete from ${table} where id = $1 returning 1`, [safeKey(id)])).length > 0),
    terms: () => reading(async () => (await database.query(`select ${terms} from ${table} budget order by id`)).map(termsOf)),
    take: (request) => writing(() => database.transaction((tx) => take(tx, request))),
  }
}

function termsOf(row: TextRow): BudgetTerms {
  return {
    id: textIn(row, 'id'),
    tag: row.tag ?? null,
    agent: row.agent ?? null,
    maxUsd: numberIn(row, 'max_usd') ?? 0,
    per: textIn(row, 'per') as SharedBudget['per'],
    timeZone: textIn(row, 'time_zone'),
    onOutage: textIn(row, 'on_outage') as SharedBudget['onOutage'],
  }
}

function budgetOf(row: TextRow): SharedBudget {
  return {
    ...termsOf(row),
    from: dateIn(row, 'begins'),
    until: dateIn(row, 'ends'),
    spentUsd: numberIn(row, 'spent') ?? 0,
    reservedUsd: numberIn(row, 'reserved') ?? 0,
    warnedAt: dateOrNull(row, 'warned_at'),
    setAt: dateIn(row, 'set_at'),
    setBy: row.set_by ?? null,
  }
}
