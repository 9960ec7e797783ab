// What the shop can be asked about customers, orders and products.
import { ORDER_COLUMNS, PRODUCT_COLUMNS } from './database.ts'
import type { Customer, Order, Product } from './records.ts'
import { daysBetween, SHOP_TODAY } from './records.ts'
import type { Db, Route } from './route.ts'
import { orderFor, Refusal, read, text } from './route.ts'

/** An order as its readers get it: with its customer's address, the names of what was bought and the shop's date. */
async function orderView(db: Db, order: Order): Promise<object> {
  const { rows: owner } = await db.query<Customer>('select * from customers where id = $1', [order.customerId])
  const skus = order.lines.map((line) => line.sku)
  const { rows: products } = await db.query<Product>(`select ${PRODUCT_COLUMNS} from products where sku = any($1)`, [skus])
  const lines = order.lines.map((line) => {
    const product = products.find((one) => one.sku === line.sku)
    return { ...line, productId: product?.productId, name: product?.name, option: product?.option }
  })
  return { ...order, lines, customerEmail: owner[0]?.email, today: SHOP_TODAY }
}

/** Routes that change nothing. */
export const READS: Route[] = [
  {
    method: 'GET',
    pattern: /^\/customers$/,
    keys: 'ignored',
    handle: read(async (db, { query }) => {
      const email = text(query.get('email'), 'email')
      const { rows } = await db.query<Customer>('select * from customers where email = lower($1)', [email])
      if (!rows[0]) throw new Refusal(404, 'customer_not_found', `nobody here has the address ${email}`)
      return rows[0]
    }),
  },
  {
    method: 'GET',
    pattern: /^\/customers\/([^/]+)\/orders$/,
    keys: 'ignored',
    handle: read(async (db, { params }) => {
      const sql = `select ${ORDER_COLUMNS} from orders where customer_id = $1 order by placed_on desc, id`
      const { rows } = await db.query<Order>(sql, [params[0]])
      return { orders: await Promise.all(rows.map((order) => orderView(db, order))) }
    }),
  },
  {
    method: 'GET',
    pattern: /^\/orders\/([^/]+)$/,
    keys: 'ignored',
    handle: read(async (db, { params }) => orderView(db, await orderFor(db, params[0]))),
  },
  {
    method: 'GET',
    pattern: /^\/orders\/([^/]+)\/parcel$/,
    keys: 'ignored',
    handle: read(async (db, { params }) => {
      const { id, status, promisedOn, deliveredOn } = await orderFor(db, params[0])
      return { orderId: id, status, promisedOn, deliveredOn, daysLate: Math.max(0, daysBetween(promisedOn, deliveredOn ?? SHOP_TODAY)) }
    }),
  },
  {
    method: 'GET',
    pattern: /^\/products$/,
    keys: 'ignored',
    handle: read(async (db, { query }) => {
      const sql = `select product_id as "productId", name, min(cents) as cents from products where name ilike $1 group by 1, 2 order by 1`
      return { products: (await db.query(sql, [`%${query.get('q') ?? ''}%`])).rows }
    }),
  },
  {
    method: 'GET',
    pattern: /^\/products\/([^/]+)$/,
    keys: 'ignored',
    handle: read(async (db, { params }) => {
      const { rows } = await db.query<Product>(`select ${PRODUCT_COLUMNS} from products where product_id = $1 order by sku`, [params[0]])
      if (!rows[0]) throw new Refusal(404, 'product_not_found', `there is no product ${params[0]}`)
      const options = rows.map(({ sku, option }) => ({ sku, option }))
      return { productId: rows[0].productId, name: rows[0].name, cents: rows[0].cents, options }
    }),
  },
  {
    method: 'GET',
    pattern: /^\/stock\/([^/]+)$/,
    keys: 'ignored',
    handle: read(async (db, { params }) => {
      const { rows } = await db.query<Product>('select sku, stock from products where sku = $1', [params[0]])
      if (!rows[0]) throw new Refusal(404, 'product_not_found', `there is nothing with the number ${params[0]}`)
      return { sku: rows[0].sku, inStock: rows[0].stock > 0 }
    }),
  },
  {
    method: 'GET',
    pattern: /^\/shipping-quote$/,
    keys: 'ignored',
    handle: read(async (_db, { query }) => {
      const country = text(query.get('country'), 'country')
      return { country, cents: { CH: 700, AT: 900, FR: 1_100, BE: 1_100, PT: 1_500 }[country] ?? 2_500 }
    }),
  },
]
