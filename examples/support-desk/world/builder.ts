// Makes customers and orders for one ticket after another, all from one stream of seeded numbers.
import type { Address, Customer, Order, Product, ShopRecords } from '../shop/records.ts'
import { dayAfter, SHOP_TODAY } from '../shop/records.ts'
import { catalogue, CITIES, FIRST_NAMES, LAST_NAMES, SOLD_OUT, STREETS } from './catalogue.ts'
import type { Random } from './random.ts'
import { integer, pick } from './random.ts'

/** What an order must be like; the rest is drawn. */
export interface OrderWish {
  status: Order['status']
  /** Days since it was delivered. */
  deliveredDaysAgo?: number
  /** Days by which it arrived (or is) later than promised; negative: earlier. Default -1. */
  daysLate?: number
  refundedCents?: number
  /** What was bought. Default: one thing that is in stock. */
  product?: Product
}

/** What a scenario makes its ticket from. */
export interface WorldBuilder {
  readonly random: Random
  readonly records: ShopRecords
  customer(): Customer
  order(customer: Customer, wish: OrderWish): Order
  address(): Address
  /** Something that is in stock; with `with_sold_out_sibling`, of a product that has a sold-out option. */
  product(kind?: 'any' | 'with_sold_out_sibling'): Product
  /** Another option of the same product: one that is in stock, or the sold-out one. */
  sibling(product: Product, kind: 'in_stock' | 'sold_out'): Product
  /** An order number that no order has. */
  unusedOrderId(): string
}

/** A builder for a world of about `tickets` tickets. */
export function worldBuilder(random: Random, tickets: number): WorldBuilder {
  const records: ShopRecords = { products: catalogue(100 + tickets), customers: [], orders: [] }
  const inStock = records.products.filter((product) => product.stock > 0)

  const address = (): Address => {
    const [city, zip, country] = pick(random, CITIES)
    return { line: `${pick(random, STREETS)} ${integer(random, 1, 120)}`, city, zip, country }
  }
  const product: WorldBuilder['product'] = (kind = 'any') =>
    pick(random, kind === 'any' ? inStock : inStock.filter((one) => one.name in SOLD_OUT))

  return {
    random,
    records,
    address,
    product,
    customer() {
      const first = pick(random, FIRST_NAMES)
      const last = pick(random, LAST_NAMES)
      const number = 101 + records.customers.length
      const customer: Customer = {
        id: `C-${number}`,
        name: `${first} ${last}`,
        email: `${first}.${last}.${number}@example.com`.toLowerCase(),
        tier: pick(random, ['standard', 'standard', 'silver', 'gold'] as const),
      }
      records.customers.push(customer)
      return customer
    },
    order(customer, wish) {
      const bought = wish.product ?? product()
      const order: Order = {
        id: `W-${1001 + records.orders.length}`,
        customerId: customer.id,
        status: wish.status,
        ...datesOf(wish, random),
        address: address(),
        lines: [{ sku: bought.sku, quantity: 1, cents: bought.cents }],
        refundedCents: wish.refundedCents ?? 0,
      }
      records.orders.push(order)
      return order
    },
    sibling(of, kind) {
      const others = records.products.filter((one) => one.productId === of.productId && one.sku !== of.sku)
      return pick(
        random,
        others.filter((one) => (kind === 'in_stock') === one.stock > 0),
      )
    },
    unusedOrderId: () => `W-9${integer(random, 1000, 9999)}`,
  }
}

function datesOf(wish: OrderWish, random: Random): Pick<Order, 'placedOn' | 'promisedOn' | 'deliveredOn'> {
  const late = wish.daysLate ?? -1
  if (wish.status === 'delivered') {
    const deliveredOn = dayAfter(SHOP_TODAY, -(wish.deliveredDaysAgo ?? integer(random, 1, 25)))
    const promisedOn = dayAfter(deliveredOn, -late)
    return { placedOn: dayAfter(promisedOn, -5), promisedOn, deliveredOn }
  }
  const promisedOn = dayAfter(SHOP_TODAY, -late)
  return { placedOn: dayAfter(promisedOn, -5), promisedOn, deliveredOn: null }
}
