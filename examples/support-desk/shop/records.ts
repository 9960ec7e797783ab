// What the shop knows: its records and the effects that a request can have on them. Types and its calendar, nothing else.

/** The shop's calendar is fixed, so that "12 days ago" means the same in every run. */
export const SHOP_TODAY = '2026-06-15'

/** The day `days` after `from` (before it, if negative), as YYYY-MM-DD. */
export function dayAfter(from: string, days: number): string {
  return new Date(Date.parse(`${from}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10)
}

/** Days from one day to another. */
export function daysBetween(from: string, to: string): number {
  return Math.round((Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / 86_400_000)
}

export interface Address {
  line: string
  city: string
  zip: string
  country: string
}

export interface Customer {
  id: string
  name: string
  email: string
  tier: 'standard' | 'silver' | 'gold'
}

/** One thing that can be bought: a product in one of its options. */
export interface Product {
  sku: string
  productId: string
  name: string
  option: string
  cents: number
  stock: number
}

export interface OrderLine {
  sku: string
  quantity: number
  cents: number
}

export interface Order {
  id: string
  customerId: string
  status: 'pending' | 'shipped' | 'delivered' | 'cancelled'
  placedOn: string
  promisedOn: string
  deliveredOn: string | null
  address: Address
  lines: OrderLine[]
  refundedCents: number
}

export type EmailTemplate = 'refund_confirmed' | 'exchange_confirmed' | 'address_changed' | 'cancellation_confirmed' | 'apology'

/** One effect: a row that the shop has because of a request. */
export type Effect =
  | { kind: 'refund'; orderId: string; cents: number }
  | { kind: 'exchange'; orderId: string; sku: string; newSku: string }
  | { kind: 'address_change'; orderId: string; address: Address }
  | { kind: 'cancellation'; orderId: string }
  | { kind: 'coupon'; customerId: string; cents: number }
  | { kind: 'pickup'; orderId: string; window: 'morning' | 'afternoon' }
  | { kind: 'email'; orderId: string; template: EmailTemplate }

/** Everything that the shop starts with. */
export interface ShopRecords {
  products: Product[]
  customers: Customer[]
  orders: Order[]
}

/** The whole state of the shop at one moment. */
export interface ShopState extends ShopRecords {
  effects: Effect[]
}
