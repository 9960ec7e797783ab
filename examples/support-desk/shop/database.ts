// The shop's own Postgres tables: making and filling them, and reading all of them back as one state.
import type { Pool } from 'pg'
import type { Customer, Effect, Order, Product, ShopRecords, ShopState } from './records.ts'

const TABLES = `
create table products (sku text primary key, product_id text not null, name text not null, option text not null,
  cents int not null, stock int not null check (stock >= 0));
create table customers (id text primary key, name text not null, email text not null unique, tier text not null);
create table orders (id text primary key, customer_id text not null references customers, status text not null,
  placed_on date not null, promised_on date not null, delivered_on date, address jsonb not null, lines jsonb not null,
  refunded_cents int not null);
create table refunds (id bigserial primary key, order_id text not null references orders, cents int not null check (cents > 0),
  reason text not null, at timestamptz not null default now());
create table exchanges (id bigserial primary key, order_id text not null references orders, sku text not null,
  new_sku text not null, at timestamptz not null default now());
create table address_changes (id bigserial primary key, order_id text not null references orders, old_address jsonb not null,
  address jsonb not null, at timestamptz not null default now());
create table cancellations (id bigserial primary key, order_id text not null references orders, at timestamptz not null default now());
-- No unique reference on the next three: as with many real services, a request that comes twice is done twice.
create table coupons (id bigserial primary key, customer_id text not null references customers, cents int not null,
  reason text not null, reference text not null, at timestamptz not null default now());
create table pickups (id bigserial primary key, order_id text not null references orders, slot text not null,
  reference text not null, at timestamptz not null default now());
create table emails (id bigserial primary key, order_id text not null references orders, template text not null,
  note text, at timestamptz not null default now());
-- The first answer to each idempotency key, which every repetition of the request gets again.
create table idempotency_keys (key text primary key, request_digest text not null, status int not null, body jsonb not null,
  at timestamptz not null default now());
-- Every request that reached the shop, also those whose sender was dead before the answer.
create table requests (id bigint primary key, at timestamptz not null default now(), method text not null, path text not null,
  idempotency_key text, reference text, request_id text, caller text, body jsonb, outcome text, status int,
  applied_at timestamptz, answered_at timestamptz, heard boolean);
`

/** Makes the tables in an empty database and fills them. */
export async function createShop(pool: Pool, records: ShopRecords): Promise<void> {
  await pool.query(TABLES)
  // jsonb_populate_recordset takes a whole table as one parameter
  await pool.query(`insert into products select * from jsonb_populate_recordset(null::products, $1)`, [
    JSON.stringify(records.products.map(({ productId, ...product }) => ({ ...product, product_id: productId }))),
  ])
  await pool.query(`insert into customers select * from jsonb_populate_recordset(null::customers, $1)`, [JSON.stringify(records.customers)])
  await pool.query(`insert into orders select * from jsonb_populate_recordset(null::orders, $1)`, [
    JSON.stringify(records.orders.map(orderRow)),
  ])
}

function orderRow(order: Order): object {
  return {
    id: order.id,
    customer_id: order.customerId,
    status: order.status,
    placed_on: order.placedOn,
    promised_on: order.promisedOn,
    delivered_on: order.deliveredOn,
    address: order.address,
    lines: order.lines,
    refunded_cents: order.refundedCents,
  }
}

/** The columns of an order under the names that `Order` has. */
export const ORDER_COLUMNS = `id, customer_id as "customerId", status, placed_on::text as "placedOn", promised_on::text as "promisedOn",
  delivered_on::text as "deliveredOn", address, lines, refunded_cents as "refundedCents"`

/** The columns of a product under the names that `Product` has. */
export const PRODUCT_COLUMNS = 'sku, product_id as "productId", name, option, cents, stock'

/** Everything in the shop's tables except the ledger. */
export async function readState(pool: Pool): Promise<ShopState> {
  const rows = async <T extends object>(sql: string): Promise<T[]> => (await pool.query<T>(sql)).rows
  return {
    products: await rows<Product>(`select ${PRODUCT_COLUMNS} from products`),
    customers: await rows<Customer>('select * from customers'),
    orders: await rows<Order>(`select ${ORDER_COLUMNS} from orders`),
    effects: [
      ...(await rows<Effect>(`select 'refund' as kind, order_id as "orderId", cents from refunds order by id`)),
      ...(await rows<Effect>(`select 'exchange' as kind, order_id as "orderId", sku, new_sku as "newSku" from exchanges order by id`)),
      ...(await rows<Effect>(`select 'address_change' as kind, order_id as "orderId", address from address_changes order by id`)),
      ...(await rows<Effect>(`select 'cancellation' as kind, order_id as "orderId" from cancellations order by id`)),
      ...(await rows<Effect>(`select 'coupon' as kind, customer_id as "customerId", cents from coupons order by id`)),
      ...(await rows<Effect>(`select 'pickup' as kind, order_id as "orderId", slot as window from pickups order by id`)),
      ...(await rows<Effect>(`select 'email' as kind, order_id as "orderId", template from emails order by id`)),
    ],
  }
}

/** Counts over all requests in the ledger. */
export interface LedgerSummary {
  requests: number
  /** Requests with a known key, answered with the first answer. */
  replayed: number
  /** Requests for a state that already existed: nothing changed. */
  unchanged: number
  refused: number
  /** Effects that were applied after the requester had died. */
  appliedUnheard: number
}

/** Counts over the ledger. */
export async function readLedger(pool: Pool): Promise<LedgerSummary> {
  const { rows } = await pool.query<LedgerSummary>(`select count(*)::int as requests,
    (count(*) filter (where outcome = 'replayed'))::int as replayed,
    (count(*) filter (where outcome = 'unchanged'))::int as unchanged,
    (count(*) filter (where outcome = 'refused'))::int as refused,
    (count(*) filter (where outcome = 'applied' and heard is not true))::int as "appliedUnheard"
    from requests`)
  return rows[0] as LedgerSummary
}
