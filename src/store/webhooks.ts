// Webhooks, and the notifications that their targets have not accepted yet, as rows. Times are those of the database's clock.
import type { JsonObject } from '../session/json.ts'
import type { NotificationType } from '../session/notifications.ts'
import { dateIn, dateOrNull, jsonIn, ms, numberIn, textIn } from './postgres/columns.ts'
import type { Database, Queryable, TextRow } from './postgres/database.ts'
import { safeKey, withoutUnsafeEscapes } from './postgres/sanitise.ts'
import type { PostgresSchema } from './postgres/schema.ts'

/** A webhook, with its secret. */
export interface StoredWebhook {
  id: string
  url: string
  secret: string
  types: NotificationType[]
  agent: string | null
  idPrefix: string | null
  withContent: boolean
  createdAt: Date
  createdBy: string | null
  pausedAt: Date | null
  pausedBy: string | null
  delivered: number
  lastDeliveredAt: Date | null
  lastError: string | null
  /** Notifications that wait, and those that were given up. */
  waiting: number
  givenUp: number
}

/** One event of a session that a webhook is notified of. */
export interface DeliveryKey {
  webhookId: string
  sessionId: string
  seq: number
}

/** A notification that its target has not accepted. */
export interface StoredDelivery extends DeliveryKey {
  agent: string
  type: NotificationType
  happenedAt: Date
  facts: JsonObject
  queuedAt: Date
  attempts: number
  dueAt: Date
  lastError: string | null
  givenUpAt: Date | null
}

/** A failed request: when it is made again; null if it is given up. */
export interface FailedDelivery {
  error: string
  againInMs: number | null
}

export interface DeliveryFilter {
  webhookId?: string
  /** Only those of webhooks for sessions whose ids begin with this. */
  idPrefix?: string
  /** Only those that were given up, or only those that wait. */
  givenUp?: boolean
  limit: number
}

/** Webhooks and their deliveries. Every method rejects with `StoreError`. */
export interface StoredWebhooks {
  /** A webhook that has the id already stays as it is. */
  put(
    webhook: Pick<StoredWebhook, 'id' | 'url' | 'secret' | 'types' | 'agent' | 'idPrefix' | 'withContent' | 'createdBy'>,
  ): Promise<StoredWebhook>
  /** Oldest first; of sessions whose ids begin with the prefix, or all. */
  list(idPrefix?: string): Promise<StoredWebhook[]>
  /** Those to which requests are sent: all that are not paused, without counting their deliveries. */
  active(): Promise<ActiveWebhook[]>
  /** Pauses or resumes it; null if there is none. Pausing a paused one changes nothing. */
  pause(id: string, paused: boolean, by: string | undefined): Promise<StoredWebhook | null>
  /** Removes it with its deliveries. Returns whether it existed. */
  remove(id: string): Promise<boolean>
  /** Queues deliveries; those that are queued already stay as they are. */
  queue(deliveries: readonly Pick<StoredDelivery, keyof DeliveryKey | 'agent' | 'type' | 'happenedAt' | 'facts'>[]): Promise<void>
  /** The deliveries that are due and the first of their session, apart from those of `busy` sessions. */
  due(webhookId: string, limit: number, busy: readonly string[]): Promise<StoredDelivery[]>
  /** Milliseconds until the next one of a session that is not `busy` is due, at most `atMost`. */
  nextDue(webhookId: string, atMost: number, busy: readonly string[]): Promise<number>
  /** The target has accepted it. */
  delivered(delivery: DeliveryKey): Promise<void>
  /** The request failed. Later deliveries of the session wait, too, until it is accepted or given up. */
  failed(delivery: DeliveryKey, failure: FailedDelivery): Promise<void>
  /** In the order in which they were queued. */
  deliveries(filter: DeliveryFilter): Promise<StoredDelivery[]>
  /** Makes those that were given up due again; of one session, or all. Returns their number. */
  redeliver(webhookId: string, sessionId?: string): Promise<number>
}

/** What is needed to send requests. */
export type ActiveWebhook = Pick<StoredWebhook, 'id' | 'url' | 'secret' | 'types' | 'agent' | 'idPrefix' | 'withContent'>

type Run = <T>(work: () => Promise<T>) => Promise<T>

/** How far the clocks of workers may be from the database's. */
const CLOCK_SKEW = '5 minutes'

const SETTINGS = 'w.id, w.url, w.secret, to_json(w.types) as types, w.agent, w.id_prefix, w.with_content::text'
const DELIVERY = `webhook_id, session_id, seq, agent, type, ${ms('happened_at')}, facts, ${ms('queued_at')}, attempts, ${ms('due_at')}, last_error, ${ms('given_up_at')}`

export function storedWebhooksOf(database: Database, schema: PostgresSchema, writing: Run, reading: Run): StoredWebhooks {
  const webhooks = schema.table('webhooks')
  const deliveries = schema.table('webhook_deliveries')

  const listed = async (on: Queryable, condition: string, values: unknown[]): Promise<StoredWebhook[]> => {
    const rows = await on.query(
      `select ${SETTINGS}, ${ms('created_at')}, w.created_by, ${ms('paused_at')}, w.paused_by, w.delivered, ${ms('last_delivered_at')}, w.last_error,
         (select count(*) from ${deliveries} d where d.webhook_id = w.id and d.given_up_at is null) as waiting,
         (select count(*) from ${deliveries} d where d.webhook_id = w.id and d.given_up_at is not null) as given_up
       from ${webhooks} w ${condition} order by w.created_at, w.id`,
      values,
    )
    return rows.map(webhookOf)
  }
  const one = async (on: Queryable, id: string): Promise<StoredWebhook | null> =>
    (await listed(on, 'where w.id = $1', [safeKey(id)]))[0] ?? null

  /** Before its deliveries, in the order in which a removal locks them. */
  const lock = (tx: Queryable, webhookId: string) => tx.query(`select from ${webhooks} where id = $1 for no key update`, [webhookId])

  return {
    put: ({ id, url, secret, types, agent, idPrefix, withContent, createdBy }) =>
      writing(() =>
        database.transaction(async (tx) => {
          await tx.query(
            `insert into ${webhooks} (id, url, secret, types, agent, id_prefix, with_content, created_by)
             values ($1, $2, $3, $4::text[], $5, $6, $7, $8) on conflict (id) do nothing`,
            [id, url, secret, types, agent && safeKey(agent), idPrefix && safeKey(idPrefix), withContent, createdBy && safeKey(createdBy)],
          )
          return (await one(tx, id)) as StoredWebhook
        }),
      ),
    list: (idPrefix) =>
      reading(() =>
        idPrefix === undefined ? listed(database, '', []) : listed(database, 'where starts_with(w.id_prefix, $1)', [safeKey(idPrefix)]),
      ),
    active: () =>
      reading(async () =>
        (await database.query(`select ${SETTINGS} from ${webhooks} w where w.paused_at is null order by w.id`)).map(settingsOf),
      ),
    pause: (id, paused, by) =>
      writing(() =>
        database.transaction(async (tx) => {
          await tx.query(
            paused
              ? `update ${webhooks} set paused_at = now(), paused_by = $2 where id = $1 and paused_at is null`
              : `update ${webhooks} set paused_at = null, paused_by = null where id = $1`,
            [safeKey(id), ...(paused ? [by === undefined ? null : safeKey(by)] : [])],
          )
          return one(tx, id)
        }),
      ),
    remove: (id) =>
      writing(() =>
        database.transaction(async (tx) => {
          await tx.query(`delete from ${schema.table('consumers')} where name = $1`, [consumerOf(safeKey(id))])
          return (await tx.query(`delete from ${webhooks} where id = $1 returning id`, [safeKey(id)])).length > 0
        }),
      ),
    queue: (queued) =>
      writing(async () => {
        if (queued.length === 0) return
        const rows = queued.map(({ webhookId, sessionId, seq, agent, type, happenedAt, facts }) => ({
          webhook_id: webhookId,
          session_id: safeKey(sessionId),
          seq,
          agent: safeKey(agent),
          type,
          happened_at: happenedAt.toISOString(),
          facts,
        }))
        // A webhook may have been removed meanwhile. It is notified of what happens after its creation, also by a rebuild, which makes all
        // events new. An erasure holds its session's row, so that nothing is queued alongside it.
        await database.query(
          `insert into ${deliveries} (webhook_id, session_id, seq, agent, type, happened_at, facts, due_at)
           select q.webhook_id, q.session_id, q.seq, q.agent, q.type, q.happened_at, q.facts,
             greatest(now(), (
               select max(d.due_at) from ${deliveries} d where d.webhook_id = q.webhook_id and d.session_id = q.session_id and d.given_up_at is null
             ))
           from jsonb_to_recordset($1::jsonb) as q(webhook_id text, session_id text, seq bigint, agent text, type text, happened_at timestamptz, facts jsonb)
           join ${webhooks} w on w.id = q.webhook_id and q.happened_at > w.created_at - interval '${CLOCK_SKEW}'
           join ${schema.table('sessions')} s on s.session_id = q.session_id and s.erased_at is null
           order by q.session_id, q.seq for key share of s
           on conflict do nothing`,
          [withoutUnsafeEscapes(JSON.stringify(rows))],
        )
      }),
    due: (webhookId, limit, busy) =>
      reading(async () => {
        const rows = await database.query(
          `select ${DELIVERY} from ${deliveries} d
           where webhook_id = $1 and given_up_at is null and due_at <= now() and session_id <> all($3::text[])
             and not exists (
               select from ${deliveries} e
               where e.webhook_id = d.webhook_id and e.session_id = d.session_id and e.seq < d.seq and e.given_up_at is null
             )
           order by due_at, seq limit $2`,
          [webhookId, limit, busy.map(safeKey)],
        )
        return rows.map(deliveryOf)
      }),
    nextDue: (webhookId, atMost, busy) =>
      reading(async () => {
        const [row] = await database.query(
          `select greatest(0, extract(epoch from min(due_at) - now()) * 1000)::bigint as in_ms from ${deliveries}
           where webhook_id = $1 and given_up_at is null and session_id <> all($2::text[])`,
          [webhookId, busy.map(safeKey)],
        )
        return Math.min(atMost, (row && numberIn(row, 'in_ms')) ?? atMost)
      }),
    delivered: ({ webhookId, sessionId, seq }) =>
      writing(() =>
        database.transaction(async (tx) => {
          await lock(tx, webhookId)
          const gone = await tx.query(`delete from ${deliveries} where webhook_id = $1 and session_id = $2 and seq = $3 returning seq`, [
            webhookId,
            safeKey(sessionId),
            seq,
          ])
          await tx.query(`update ${webhooks} set delivered = delivered + $2, last_delivered_at = now(), last_error = null where id = $1`, [
            webhookId,
            gone.length,
          ])
        }),
      ),
    failed: ({ webhookId, sessionId, seq }, { error, againInMs }) =>
      writing(() =>
        database.transaction(async (tx) => {
          const key = safeKey(sessionId)
          const text = safeKey(error)
          await lock(tx, webhookId)
          await tx.query(
            `update ${deliveries} set attempts = attempts + 1, last_error = $4,
               due_at = now() + make_interval(secs => coalesce($5::float8, 0) / 1000),
               given_up_at = case when $5::float8 is null then now() end
             where webhook_id = $1 and session_id = $2 and seq = $3 and given_up_at is null`,
            [webhookId, key, seq, text, againInMs],
          )
          // Otherwise, each look for what is due would read all that waits behind it.
          await tx.query(
            `update ${deliveries} set due_at = now() + make_interval(secs => coalesce($4::float8, 0) / 1000)
             where webhook_id = $1 and session_id = $2 and seq > $3 and given_up_at is null`,
            [webhookId, key, seq, againInMs],
          )
          await tx.query(`update ${webhooks} set last_error = $2 where id = $1`, [webhookId, text])
        }),
      ),
    deliveries: ({ webhookId, idPrefix, givenUp, limit }) =>
      reading(async () => {
        const rows = await database.query(
          `select ${DELIVERY} from ${deliveries}
           where ($1::text is null or webhook_id = $1) and ($2::text is null or webhook_id in (
               select w.id from ${webhooks} w where starts_with(w.id_prefix, $2)
             )) and ($3::boolean is null or (given_up_at is not null) = $3)
           order by queued_at, session_id, seq limit $4`,
          [webhookId === undefined ? null : safeKey(webhookId), idPrefix === undefined ? null : safeKey(idPrefix), givenUp ?? null, limit],
        )
        return rows.map(deliveryOf)
      }),
    redeliver: (webhookId, sessionId) =>
      writing(async () => {
        const rows = await database.query(
          `update ${deliveries} set given_up_at = null, attempts = 0, due_at = now(), queued_at = now()
           where webhook_id = $1 and given_up_at is not null and ($2::text is null or session_id = $2) returning seq`,
          [safeKey(webhookId), sessionId === undefined ? null : safeKey(sessionId)],
        )
        return rows.length
      }),
  }
}

/** The consumer of the feed that queues a webhook's deliveries. */
export function consumerOf(webhookId: string): string {
  return `webhook ${webhookId}`
}

function settingsOf(row: TextRow): ActiveWebhook {
  return {
    id: textIn(row, 'id'),
    url: textIn(row, 'url'),
    secret: textIn(row, 'secret'),
    types: jsonIn(row, 'types') as NotificationType[],
    agent: row.agent ?? null,
    idPrefix: row.id_prefix ?? null,
    withContent: row.with_content === 'true',
  }
}

function webhookOf(row: TextRow): StoredWebhook {
  return {
    ...settingsOf(row),
    createdAt: dateIn(row, 'created_at'),
    createdBy: row.created_by ?? null,
    pausedAt: dateOrNull(row, 'paused_at'),
    pausedBy: row.paused_by ?? null,
    delivered: numberIn(row, 'delivered') ?? 0,
    lastDeliveredAt: dateOrNull(row, 'last_delivered_at'),
    lastError: row.last_error ?? null,
    waiting: numberIn(row, 'waiting') ?? 0,
    givenUp: numberIn(row, 'given_up') ?? 0,
  }
}

function deliveryOf(row: TextRow): StoredDelivery {
  return {
    webhookId: textIn(row, 'webhook_id'),
    sessionId: textIn(row, 'session_id'),
    seq: numberIn(row, 'seq') ?? 0,
    agent: textIn(row, 'agent'),
    type: textIn(row, 'type') as NotificationType,
    happenedAt: dateIn(row, 'happened_at'),
    facts: jsonIn(row, 'facts') as JsonObject,
    queuedAt: dateIn(row, 'queued_at'),
    attempts: numberIn(row, 'attempts') ?? 0,
    dueAt: dateIn(row, 'due_at'),
    lastError: row.last_error ?? null,
    givenUpAt: dateOrNull(row, 'given_up_at'),
  }
}
