// What a route of the shop is: a request, an answer, a refusal.
import type { QueryResult, QueryResultRow } from 'pg'
import { ORDER_COLUMNS } from './database.ts'
import type { Order } from './records.ts'

/** What a route needs from Postgres: a pool, or the client of a transaction. */
export interface Db {
  query<T extends QueryResultRow>(sql: string, values?: unknown[]): Promise<QueryResult<T>>
}

/** A request as the routes see it. */
export interface ShopRequest {
  /** The path's variable parts, decoded. */
  params: readonly string[]
  query: URLSearchParams
  body: Readonly<Record<string, unknown>>
}

/** What a request did. */
export type Outcome = 'read' | 'applied' | 'unchanged'

/** An answer that is not an error. */
export interface Answer {
  outcome: Outcome
  body: object
}

/** The shop says no: 4xx with a code. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

export interface Route {
  method: 'GET' | 'POST' | 'PUT'
  pattern: RegExp
  /** `honoured`: a repeated Idempotency-Key gets the first answer again. `ignored`: as it says. */
  keys: 'honoured' | 'ignored'
  /** What the request is about, for look-ups that have to wait for requests still being worked on. */
  subject?(request: ShopRequest): string | undefined
  handle(db: Db, request: ShopRequest): Promise<Answer>
}

/** A required string. */
export const text = (value: unknown, what: string): string => {
  if (typeof value !== 'string' || value === '') throw new Refusal(400, 'bad_request', `${what} is missing`)
  return value
}
/** A required amount of money. */
export const amount = (value: unknown): number => {
  if (!Number.isInteger(value) || (value as number) <= 0) throw new Refusal(400, 'bad_request', 'cents must be a positive integer')
  return value as number
}

/** The order. Refuses if there is none. */
export async function orderFor(db: Db, id: string | undefined, lock: 'for update' | '' = ''): Promise<Order> {
  const { rows } = await db.query<Order>(`select ${ORDER_COLUMNS} from orders where id = $1 ${lock}`, [id])
  if (!rows[0]) throw new Refusal(404, 'order_not_found', `there is no order ${id}`)
  return rows[0]
}

/** A handler that changes nothing. */
export const read =
  (query: (db: Db, request: ShopRequest) => Promise<object>): Route['handle'] =>
  async (db, request) => ({ outcome: 'read', body: await query(db, request) })
