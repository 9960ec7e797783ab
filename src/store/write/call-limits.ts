// Limits of tools' calls over all workers. Times are those of the database's clock, because workers' clocks differ.
import type { AdmissionRequest, CallLimit, LimitedEntry } from '../../session/call-limits.ts'
import { numberIn } from '../postgres/columns.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { excludeErasure } from './erased.ts'

/** How long a call that waits keeps its place after it should have asked again. */
const PLACE_KEPT_MS = 5_000
/** How long a call that has waited keeps its admission until it begins. */
const BEGINS_WITHIN_MS = 30_000
/** How often a call asks again: the more calls wait before it, the less often. */
const LEAST_WAIT_MS = 250
const MOST_WAIT_MS = 5_000
/** Each call that waits makes the others ask this much less often: however many wait, they ask about a hundred times a second together. */
const SHARE_MS = 15
/** A call that waits for a rate knows when its turn comes, but those before it may give up. */
const MOST_RATE_WAIT_MS = 30_000
/** Rows of the past that one admission removes. */
const SWEPT = 50

/** See `Store.admitCall`. The limits of a call are locked in the order in which the tool's options are read, so no two calls deadlock. */
export function admitCall(database: Database, schema: PostgresSchema, { limits, ...call }: AdmissionRequest): Promise<number> {
  return database.transaction(async (tx) => {
    await excludeErasure(tx, schema, safeKey(call.sessionId))
    const places = []
    for (const limit of limits) places.push(await placeAt(tx, schema, limit, call))
    const waitMs = Math.max(0, ...places.map((place) => place.waitMs))
    for (const place of places) await (waitMs > 0 ? keepPlace(tx, schema, place, call, waitMs) : take(tx, schema, place, call))
    if (waitMs === 0 || places.some(({ row }) => row === 'none')) await sweep(tx, schema)
    return waitMs
  })
}

/** See `Store.leaveLimits`. */
export async function leaveLimits(database: Queryable, schema: PostgresSchema, { sessionId, callId, entry }: LimitedEntry): Promise<void> {
  await database.query(
    `delete from ${schema.table('call_limits')} where session_id = $1 and call_id = $2 and kind = 'concurrency' and entry = $3`,
    [safeKey(sessionId), callId, entry],
  )
}

type Call = Omit<AdmissionRequest, 'limits'>

/** Where a call stands at a limit. */
interface Place {
  limit: CallLimit
  /** 0: the limit admits the call now. */
  waitMs: number
  /** The row of the call, if it has one: it waits, was admitted and has not begun, or (for `concurrency`) has begun in an earlier attempt. */
  row: 'waits' | 'admitted' | 'none'
}

const COLUMNS = 'tool = $1 and kind = $2 and key = $3'
const MINE = 'session_id = $4 and call_id = $5'
/** An expired row may be locked by an admission that removes it and waits for this limit: changing it would be a deadlock. */
const COUNTS = 'until > clock_timestamp()'

const ofLimit = ({ tool, of, key }: CallLimit): string[] => [tool, of, safeKey(key)]
const ofCall = ({ sessionId, callId }: Call): string[] => [safeKey(sessionId), callId]

/** Looks up a call's place. Other calls of the limit wait until the transaction has ended. */
async function placeAt(tx: Queryable, schema: PostgresSchema, limit: CallLimit, call: Call): Promise<Place> {
  const table = schema.table('call_limits')
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [[schema.name, ...ofLimit(limit)].join('\n')])
  const [row = {}] = await tx.query(
    `with counted as (
       select *, ${MINE} as mine, kind = 'concurrency' or not begun as stays from ${table} where ${COLUMNS} and ${COUNTS}
     ), own as (
       select bool_or(admitted_at is not null and stays) as is_in, min(asked_at) filter (where admitted_at is null) as asked_at
       from counted where mine
     )
     select own.is_in::int as is_in, (own.asked_at is not null)::int as waits,
       (select count(*) from counted where admitted_at is not null and not (mine and stays)) as taken,
       (select count(*) from counted where admitted_at is null and not mine) as others,
       (select count(*) from counted
        where admitted_at is null and not yields and not mine and (own.asked_at is null or counted.asked_at < own.asked_at)) as ahead
     from own`,
    [...ofLimit(limit), ...ofCall(call)],
  )
  if (numberIn(row, 'is_in') === 1) return { limit, waitMs: 0, row: 'admitted' }
  const state = numberIn(row, 'waits') === 1 ? 'waits' : 'none'
  const before = (numberIn(row, 'taken') ?? 0) + (numberIn(row, 'ahead') ?? 0) - limit.max
  if (before < 0) return { limit, waitMs: 0, row: state }
  const waiting = (numberIn(row, 'others') ?? 0) + 1
  const waitMs = limit.of === 'rate' ? await rateWait(tx, schema, limit, before, waiting) : concurrencyWait(limit, before, waiting)
  return { limit, waitMs, row: state }
}

/** Nobody knows when a call will end: those that come next ask often, and the others the less often the more come before them. */
function concurrencyWait({ max }: CallLimit, before: number, waiting: number): number {
  const next = Math.max(LEAST_WAIT_MS, SHARE_MS * Math.min(max, waiting) * (1 + Math.log(Math.max(1, waiting / max))))
  return Math.ceil(Math.min(atMost(MOST_WAIT_MS, waiting), next * Math.max(1, (before + 1) / max)))
}

/** The longest wait, if so many wait. */
const atMost = (ms: number, waiting: number): number => Math.max(ms, 2 * SHARE_MS * waiting)

/** Milliseconds until the call may begin; `before`: how many of the `waiting` calls come before it. */
async function rateWait(tx: Queryable, schema: PostgresSchema, limit: CallLimit, before: number, waiting: number): Promise<number> {
  const { max, perMs = 0 } = limit
  // An admitted call usually begins within moments.
  const free = `case when begun then until else greatest(${after('$5', 'admitted_at')}, ${after('$6')}) end`
  const [row] = await tx.query(
    `select ceil(extract(epoch from free - clock_timestamp()) * 1000)::bigint as ms
     from (select ${free} as free from ${schema.table('call_limits')} where ${COLUMNS} and admitted_at is not null and ${COUNTS}) counted
     order by free offset $4 limit 1`,
    [...ofLimit(limit), before % max, perMs, LEAST_WAIT_MS],
  )
  // Those before it take the next free places, and free them again after another span.
  const waitMs = Math.floor(before / max) * perMs + ((row && numberIn(row, 'ms')) ?? perMs)
  return Math.max(1, Math.min(atMost(MOST_RATE_WAIT_MS, waiting), waitMs))
}

async function take(tx: Queryable, schema: PostgresSchema, { limit, row }: Place, call: Call): Promise<void> {
  const { of, perMs = 0 } = limit
  // A start counts from the moment at which the call begins, which may be long after its admission.
  const forMs = !call.begins ? BEGINS_WITHIN_MS : of === 'rate' ? perMs : call.forMs
  const values = [...ofLimit(limit), ...ofCall(call), call.begins, forMs, call.attempt, call.entry]
  const table = schema.table('call_limits')
  if (row === 'admitted') {
    const kept = await tx.query(
      // An earlier attempt may ask late: its end must not free the place of the one that followed.
      `update ${table} set begun = $6, until = greatest(case when attempt > $8 then until end, ${after('$7')}),
         entry = case when attempt > $8 then entry else $9 end, attempt = greatest(attempt, $8)
       where ${COLUMNS} and ${MINE} and ${COUNTS} and admitted_at is not null and (kind = 'concurrency' or not begun) returning 1`,
      values,
    )
    // Otherwise, it has just expired.
    if (kept.length > 0) return
  }
  const own = values.slice(0, 5)
  await tx.query(`delete from ${table} where ${COLUMNS} and ${MINE} and ${COUNTS} and admitted_at is null`, own)
  await tx.query(
    `insert into ${table} (tool, kind, key, session_id, call_id, asked_at, admitted_at, begun, until, attempt, entry)
     select $1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp(), $6, ${after('$7')}, $8, $9 where ${isKept(schema)}`,
    values,
  )
}

async function keepPlace(
  tx: Queryable,
  schema: PostgresSchema,
  { limit, row, waitMs: ownWaitMs }: Place,
  call: Call,
  waitMs: number,
): Promise<void> {
  const table = schema.table('call_limits')
  // If this limit admits the call, it does not begin yet, because another one makes it wait. Meanwhile it holds up nobody here: otherwise,
  // the calls of one customer that wait for a rate of theirs would stop those of all others.
  const values = [...ofLimit(limit), ...ofCall(call), waitMs + PLACE_KEPT_MS, ownWaitMs === 0]
  const until = after('$6')
  if (row === 'none')
    await tx.query(
      `insert into ${table} (tool, kind, key, session_id, call_id, asked_at, until, yields)
       select $1, $2, $3, $4, $5, clock_timestamp(), ${until}, $7 where ${isKept(schema)}`,
      values,
    )
  else if (row === 'waits')
    await tx.query(
      `update ${table} set until = ${until}, yields = $7 where ${COLUMNS} and ${MINE} and ${COUNTS} and admitted_at is null`,
      values,
    )
}

/** Nothing of an erased session is stored. */
const isKept = (schema: PostgresSchema): string =>
  `not exists (select from ${schema.table('sessions')} erased where erased.session_id = $4 and erased_at is not null)`

/** The time after that many milliseconds, which are a parameter. */
const after = (parameter: string, time = 'clock_timestamp()'): string => `${time} + make_interval(secs => ${parameter}::float8 / 1000)`

async function sweep(tx: Queryable, schema: PostgresSchema): Promise<void> {
  const table = schema.table('call_limits')
  await tx.query(
    `delete from ${table} where ctid in (
       select ctid from ${table} where until < clock_timestamp() order by until limit ${SWEPT} for update skip locked
     )`,
  )
}
