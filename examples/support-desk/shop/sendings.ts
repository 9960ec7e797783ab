// What the shop sends out: coupons, couriers, e-mails. A request that comes twice is done twice; look-ups tell what was done.
import type { Route, ShopRequest } from './route.ts'
import { amount, orderFor, Refusal, read, text } from './route.ts'

const referenceOf = (request: ShopRequest): string | undefined => {
  const reference = request.body.reference ?? request.query.get('reference')
  return typeof reference === 'string' ? `reference ${reference}` : undefined
}
const emailsOf = ({ params }: ShopRequest): string => `emails of ${params[0]}`

/** Routes that must not be repeated, and the look-ups that go with them. */
export const SENDINGS: Route[] = [
  {
    method: 'POST',
    pattern: /^\/coupons$/,
    keys: 'ignored',
    subject: referenceOf,
    async handle(db, { body }) {
      const sql = 'insert into coupons (customer_id, cents, reason, reference) values ($1, $2, $3, $4) returning id'
      const values = [
        text(body.customerId, 'customerId'),
        amount(body.cents),
        text(body.reason, 'reason'),
        text(body.reference, 'reference'),
      ]
      const known = await db.query('select 1 from customers where id = $1', [values[0]])
      if (!known.rowCount) throw new Refusal(404, 'customer_not_found', `there is no customer ${values[0]}`)
      const { rows } = await db.query<{ id: string }>(sql, values)
      return { outcome: 'applied', body: { couponId: `G-${rows[0]?.id}`, cents: values[1] } }
    },
  },
  {
    method: 'GET',
    pattern: /^\/coupons$/,
    keys: 'ignored',
    subject: referenceOf,
    handle: read(async (db, { query }) => {
      const sql = `select 'G-' || id as "couponId", cents from coupons where reference = $1 order by id`
      return { coupons: (await db.query(sql, [query.get('reference')])).rows }
    }),
  },
  {
    method: 'POST',
    pattern: /^\/pickups$/,
    keys: 'ignored',
    subject: referenceOf,
    async handle(db, { body }) {
      const order = await orderFor(db, text(body.orderId, 'orderId'))
      const slot = text(body.window, 'window')
      const sql = 'insert into pickups (order_id, slot, reference) values ($1, $2, $3) returning id'
      const { rows } = await db.query<{ id: string }>(sql, [order.id, slot, text(body.reference, 'reference')])
      return { outcome: 'applied', body: { pickupId: `U-${rows[0]?.id}`, orderId: order.id, window: slot } }
    },
  },
  {
    method: 'GET',
    pattern: /^\/pickups$/,
    keys: 'ignored',
    subject: referenceOf,
    handle: read(async (db, { query }) => {
      const sql = `select 'U-' || id as "pickupId", order_id as "orderId", slot as "window" from pickups where reference = $1 order by id`
      return { pickups: (await db.query(sql, [query.get('reference')])).rows }
    }),
  },
  {
    method: 'POST',
    pattern: /^\/orders\/([^/]+)\/emails$/,
    keys: 'ignored',
    subject: emailsOf,
    async handle(db, { params, body }) {
      const order = await orderFor(db, params[0])
      const sql = 'insert into emails (order_id, template, note) values ($1, $2, $3) returning id'
      const { rows } = await db.query<{ id: string }>(sql, [order.id, text(body.template, 'template'), body.note ?? null])
      return { outcome: 'applied', body: { emailId: `E-${rows[0]?.id}`, orderId: order.id, template: body.template } }
    },
  },
  {
    method: 'GET',
    pattern: /^\/orders\/([^/]+)\/emails$/,
    keys: 'ignored',
    subject: emailsOf,
    handle: read(async (db, { params }) => {
      const sql = `select 'E-' || id as "emailId", template, at from emails where order_id = $1 order by id`
      return { emails: (await db.query(sql, [params[0]])).rows }
    }),
  },
]
