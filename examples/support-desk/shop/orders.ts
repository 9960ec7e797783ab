// What can be done to an order, as in payment and shipping APIs: a request that comes twice is done once.
import type { Address } from './records.ts'
import type { Route } from './route.ts'
import { amount, orderFor, Refusal, text } from './route.ts'

/** Routes that may be repeated with the same key, or as they are. */
export const ORDER_CHANGES: Route[] = [
  {
    method: 'POST',
    pattern: /^\/orders\/([^/]+)\/refunds$/,
    keys: 'honoured',
    async handle(db, { params, body }) {
      const order = await orderFor(db, params[0], 'for update')
      const cents = amount(body.cents)
      const left = order.lines.reduce((sum, line) => sum + line.cents * line.quantity, 0) - order.refundedCents
      if (cents > left) throw new Refusal(409, 'refund_too_large', `only ${left} cents of ${order.id} are not refunded yet`)
      await db.query('update orders set refunded_cents = refunded_cents + $2 where id = $1', [order.id, cents])
      const sql = 'insert into refunds (order_id, cents, reason) values ($1, $2, $3) returning id'
      const { rows } = await db.query<{ id: string }>(sql, [order.id, cents, text(body.reason, 'reason')])
      return { outcome: 'applied', body: { refundId: `R-${rows[0]?.id}`, orderId: order.id, cents } }
    },
  },
  {
    method: 'POST',
    pattern: /^\/orders\/([^/]+)\/exchanges$/,
    keys: 'honoured',
    async handle(db, { params, body }) {
      const order = await orderFor(db, params[0], 'for update')
      const [sku, newSku] = [text(body.sku, 'sku'), text(body.newSku, 'newSku')]
      if (order.status !== 'delivered') throw new Refusal(409, 'not_delivered', `${order.id} is ${order.status}`)
      if (!order.lines.some((line) => line.sku === sku)) throw new Refusal(409, 'not_in_order', `${sku} is not in ${order.id}`)
      const taken = await db.query('update products set stock = stock - 1 where sku = $1 and stock > 0', [newSku])
      if (taken.rowCount === 0) throw new Refusal(409, 'out_of_stock', `${newSku} is not in stock`)
      const lines = order.lines.map((line) => (line.sku === sku ? { ...line, sku: newSku } : line))
      await db.query('update orders set lines = $2 where id = $1', [order.id, JSON.stringify(lines)])
      const sql = 'insert into exchanges (order_id, sku, new_sku) values ($1, $2, $3) returning id'
      const { rows } = await db.query<{ id: string }>(sql, [order.id, sku, newSku])
      return { outcome: 'applied', body: { exchangeId: `X-${rows[0]?.id}`, orderId: order.id, sku, newSku } }
    },
  },
  {
    method: 'POST',
    pattern: /^\/orders\/([^/]+)\/cancellation$/,
    keys: 'honoured',
    async handle(db, { params }) {
      const order = await orderFor(db, params[0], 'for update')
      if (order.status !== 'pending') throw new Refusal(409, 'not_pending', `${order.id} is ${order.status}`)
      await db.query(`update orders set status = 'cancelled' where id = $1`, [order.id])
      for (const line of order.lines) await db.query('update products set stock = stock + $2 where sku = $1', [line.sku, line.quantity])
      const { rows } = await db.query<{ id: string }>('insert into cancellations (order_id) values ($1) returning id', [order.id])
      return { outcome: 'applied', body: { cancellationId: `K-${rows[0]?.id}`, orderId: order.id } }
    },
  },
  {
    // Needs no key: it sets an absolute state, so a repeat changes nothing.
    method: 'PUT',
    pattern: /^\/orders\/([^/]+)\/address$/,
    keys: 'ignored',
    async handle(db, { params, body }) {
      const order = await orderFor(db, params[0], 'for update')
      const address: Address = {
        line: text(body.line, 'line'),
        city: text(body.city, 'city'),
        zip: text(body.zip, 'zip'),
        country: text(body.country, 'country'),
      }
      if (order.status !== 'pending') throw new Refusal(409, 'not_pending', `${order.id} is ${order.status}`)
      const same = await db.query('select 1 from orders where id = $1 and address = $2', [order.id, JSON.stringify(address)])
      if (same.rowCount) return { outcome: 'unchanged', body: { orderId: order.id, address } }
      await db.query('insert into address_changes (order_id, old_address, address) values ($1, $2, $3)', [
        order.id,
        JSON.stringify(order.address),
        JSON.stringify(address),
      ])
      await db.query('update orders set address = $2 where id = $1', [order.id, JSON.stringify(address)])
      return { outcome: 'applied', body: { orderId: order.id, address } }
    },
  },
]
