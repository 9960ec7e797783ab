// The retail database: its shape, its canonical text and the workload's hashes over it.
import { createHash } from 'node:crypto'

/** A postal address. */
export interface Address {
  address1: string
  address2: string
  city: string
  state: string
  country: string
  zip: string
}

/** One movement of money of an order. */
export interface Payment {
  transaction_type: 'payment' | 'refund'
  amount: number
  payment_method_id: string
}

/** One line of an order. */
export interface Item {
  name: string
  product_id: string
  item_id: string
  price: number
  options: Record<string, string>
}

/** An order; members that only some orders have are optional. */
export interface Order {
  order_id: string
  user_id: string
  address: Address
  items: Item[]
  status: string
  payment_history: Payment[]
  cancel_reason?: string
  exchange_items?: string[]
  exchange_new_items?: string[]
  exchange_payment_method_id?: string
  exchange_price_difference?: number
  return_items?: string[]
  return_payment_method_id?: string
}

/** A way to pay; gift cards have a balance. */
export interface PaymentMethod {
  id: string
  source: string
  balance?: number
}

/** A customer. */
export interface User {
  name: { first_name: string; last_name: string }
  address: Address
  email: string
  payment_methods: Record<string, PaymentMethod>
  orders: string[]
}

/** One article of a product. */
export interface Variant {
  item_id: string
  options: Record<string, string>
  available: boolean
  price: number
}

export interface Product {
  name: string
  product_id: string
  variants: Record<string, Variant>
}

/** A database. Never changed in place: a change makes a new one that shares everything else. */
export interface Database {
  readonly orders: Readonly<Record<string, Order>>
  readonly products: Readonly<Record<string, Product>>
  readonly users: Readonly<Record<string, User>>
}

/** `database` with one order replaced. */
export function withOrder(database: Database, order: Order): Database {
  return { ...database, orders: { ...database.orders, [order.order_id]: order } }
}

/** `database` with one user replaced. */
export function withUser(database: Database, userId: string, user: User): Database {
  return { ...database, users: { ...database.users, [userId]: user } }
}

/** JSON with keys sorted at every level and no whitespace. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonicalText(field)}`).join(',')}}`
}

const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex')

/** Hash of a result's text, with JSON texts in canonical form. */
export function resultHash(text: string): string {
  return sha256(/^[{[]/.test(text) ? canonicalText(JSON.parse(text)) : text)
}

/** Hash of a whole database. */
export function databaseHash({ orders, products, users }: Database): string {
  const texts = ['{"orders":', tableText(orders), ',"products":', tableText(products), ',"users":', tableText(users), '}']
  const hash = createHash('sha256')
  for (const text of texts) hash.update(text, 'utf8')
  return hash.digest('hex')
}

/** Whether two databases have the same content; compares only what they do not share. */
export function haveSameContent(one: Database, other: Database): boolean {
  return (['orders', 'products', 'users'] as const).every((name) => {
    const [table, otherTable]: Readonly<Record<string, object>>[] = [one[name], other[name]]
    if (table === otherTable) return true
    const keys = new Set([...Object.keys(table ?? {}), ...Object.keys(otherTable ?? {})])
    return [...keys].every((key) => haveSameText(table?.[key], otherTable?.[key]))
  })
}

function haveSameText(row: object | undefined, other: object | undefined): boolean {
  return row === other || (row !== undefined && other !== undefined && rowText(row) === rowText(other))
}

/** Canonical texts of tables and rows, which are never changed in place: databases share most of them. */
const texts = { tables: new WeakMap<object, string>(), rows: new WeakMap<object, string>() }

function tableText(table: Readonly<Record<string, object>>): string {
  return textIn(texts.tables, table, () => {
    const fields = Object.keys(table)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${rowText(table[key] as object)}`)
    return `{${fields.join(',')}}`
  })
}

const rowText = (row: object): string => textIn(texts.rows, row, () => canonicalText(row))

function textIn(known: WeakMap<object, string>, of: object, make: () => string): string {
  const text = known.get(of) ?? make()
  known.set(of, text)
  return text
}
