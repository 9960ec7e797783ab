// The house rules as a policy: for each wish, what to look up, what to do, and when to say no.
import { dayAfter } from '../shop/records.ts'
import type { OrderView } from '../tools/reads.ts'
import type { Letter } from './letter.ts'
import { readLetter } from './letter.ts'
import type { Policy } from './replay.ts'
import type { Step } from './steps.ts'
import { call, email, GaveUp, one, Refused, together } from './steps.ts'

const RETURN_DAYS = 30
const LATE_DAYS = 3
const COUPON_CENTS: Readonly<Record<string, number>> = { standard: 500, silver: 1_000, gold: 2_000 }

const money = (cents: number): string => `${(cents / 100).toFixed(2)} CHF`

/** What the desk does about a letter. */
export function* houseRules(text: string): Policy {
  const letter = readLetter(text)
  try {
    return yield* WAYS[letter.wish](letter)
  } catch (error) {
    if (error instanceof Refused && error.code === 'order_not_found')
      return `I cannot find the order ${letter.orderId}. Could you check the number?`
    if (error instanceof Refused || error instanceof GaveUp) return `I have to hand this to a colleague: ${error.message}.`
    throw error
  }
}

const WAYS: Readonly<Record<Letter['wish'], (letter: Letter) => Step<string>>> = {
  *refund(letter) {
    const order = yield* theOrder(letter)
    const no = whyNotReturnable(letter, order)
    if (no) return no
    const cents = yield* refund(order, 'arrived damaged')
    yield* email(order.id, 'refund_confirmed')
    return `I am sorry about that. ${money(cents)} are on their way back to you; you may keep the item.`
  },

  *send_back(letter) {
    const order = yield* theOrder(letter)
    const no = whyNotReturnable(letter, order)
    if (no) return no
    const cents = yield* refund(order, 'sent back')
    yield* one('book_pickup', { orderId: order.id, window: letter.window })
    yield* email(order.id, 'refund_confirmed')
    return `Our courier comes in the ${letter.window}, and ${money(cents)} are on their way back to you.`
  },

  *late(letter) {
    if (!letter.orderId || !letter.from) return ASK_FOR_NUMBER
    const orderId = letter.orderId
    const [order, parcel, customer] = yield* together<[OrderView, { daysLate: number }, { id: string; tier: string }]>([
      call('get_order', { orderId }),
      call('track_parcel', { orderId }),
      call('find_customer', { email: letter.from }),
    ])
    if (isStranger(letter, order)) return NOT_YOURS
    if (parcel.daysLate < LATE_DAYS) return `${orderId} is within ${LATE_DAYS - 1} days of what we promised. I am sorry for the wait.`
    const cents = COUPON_CENTS[customer.tier] ?? 0
    yield* one('send_coupon', { customerId: customer.id, cents, reason: `${orderId} was ${parcel.daysLate} days late` })
    yield* email(orderId, 'apology')
    return `I am sorry that ${orderId} is ${parcel.daysLate} days late. A coupon over ${money(cents)} is in your mailbox.`
  },

  *address(letter) {
    const order = yield* theOrder(letter)
    if (isStranger(letter, order)) return NOT_YOURS
    if (!letter.address) return 'Which address should it go to?'
    if (order.status !== 'pending') return `${order.id} is ${order.status} already: its address can no longer be changed.`
    yield* one('change_address', { orderId: order.id, address: { ...letter.address } })
    yield* email(order.id, 'address_changed')
    return `${order.id} goes to ${letter.address.line}, ${letter.address.city}.`
  },

  *exchange(letter) {
    const order = yield* theOrder(letter, { alsoSearch: true })
    const no = whyNotReturnable(letter, order)
    if (no) return no
    const line = order.lines[0]
    if (!line) return ASK_FOR_NUMBER
    const { options } = yield* one<ProductView>('get_product', { productId: line.productId })
    const wanted = options.find(({ option }) => option === letter.option)
    if (!wanted) return `The ${line.name} comes in ${options.map(({ option }) => option).join(', ')}. Which would you like?`
    const { inStock } = yield* one<{ inStock: boolean }>('check_stock', { sku: wanted.sku })
    if (inStock) yield* one('exchange_item', { orderId: order.id, sku: line.sku, newSku: wanted.sku })
    else yield* refund(order, `${letter.option} is sold out`)
    yield* one('book_pickup', { orderId: order.id, window: letter.window })
    yield* email(order.id, inStock ? 'exchange_confirmed' : 'refund_confirmed')
    if (inStock) return `The ${line.name} in ${letter.option} is on its way; our courier takes the other one back.`
    return `The ${line.name} is sold out in ${letter.option}, so I refunded it; our courier takes it back.`
  },

  *cancel(letter) {
    const order = yield* theOrder(letter)
    if (isStranger(letter, order)) return NOT_YOURS
    if (order.status !== 'pending') return `${order.id} is ${order.status} already and can no longer be cancelled. You may send it back.`
    yield* one('cancel_order', { orderId: order.id })
    const cents = yield* refund(order, 'cancelled')
    yield* email(order.id, 'cancellation_confirmed')
    return `${order.id} is cancelled, and ${money(cents)} are on their way back to you.`
  },

  *where(letter) {
    const orders = yield* ordersOf(letter)
    const parcels = yield* together<{ orderId: string; status: string }[]>(orders.map(({ id }) => call('track_parcel', { orderId: id })))
    return `Here is what I found: ${parcels.map(({ orderId, status }) => `${orderId} is ${status}`).join(', ')}.`
  },

  *question(letter) {
    const { products } = yield* one<{ products: { productId: string; name: string }[] }>('search_products', { query: letter.product ?? '' })
    const product = products[0]
    if (!product) return 'I am afraid we do not have that.'
    const { cents, options } = yield* one<ProductView>('get_product', { productId: product.productId })
    const wanted = options.find(({ option }) => option === letter.option)
    if (!wanted) return `The ${product.name} comes in ${options.map(({ option }) => option).join(', ')}.`
    const [stock, quote] = yield* together<[{ inStock: boolean }, { cents: number }]>([
      call('check_stock', { sku: wanted.sku }),
      call('shipping_quote', { country: letter.country ?? 'CH' }),
    ])
    return `The ${product.name} in ${wanted.option} is ${stock.inStock ? 'in stock' : 'sold out'} at ${money(cents)}, plus ${money(quote.cents)} shipping.`
  },

  // biome-ignore lint/correctness/useYield: the one way that needs no tools
  *other() {
    return 'What can I do for you? Please tell me your order number as well.'
  },
}

interface ProductView {
  cents: number
  options: { sku: string; option: string }[]
}

const ASK_FOR_NUMBER = 'Which order is this about? Please tell me its number.'
const NOT_YOURS = 'This order belongs to another customer, so I cannot do anything about it.'

/** The order that a letter is about: by its number, or else the customer's newest order with the product that they name. */
function* theOrder(letter: Letter, options: { alsoSearch?: true } = {}): Step<OrderView> {
  let { orderId } = letter
  if (!orderId) {
    const orders = yield* ordersOf(letter)
    const named = letter.product?.toLowerCase()
    orderId = orders.find((order) => order.lines.some((line) => line.name.toLowerCase() === named))?.id
    if (!orderId) throw new GaveUp(`${letter.from} has no order of the ${letter.product}`)
  }
  const calls = [
    call('get_order', { orderId }),
    ...(options.alsoSearch && letter.product ? [call('search_products', { query: letter.product })] : []),
  ]
  const [order] = yield* together<[OrderView]>(calls)
  return order
}

function* ordersOf(letter: Letter): Step<OrderView[]> {
  if (!letter.from) throw new GaveUp('the letter does not say who wrote it')
  const customer = yield* one<{ id: string }>('find_customer', { email: letter.from })
  return (yield* one<{ orders: OrderView[] }>('list_orders', { customerId: customer.id })).orders
}

/** Refunds what is not refunded yet. */
function* refund(order: OrderView, reason: string): Step<number> {
  const cents = order.lines.reduce((sum, line) => sum + line.cents * line.quantity, 0) - order.refundedCents
  yield* one('refund_order', { orderId: order.id, cents, reason })
  return cents
}

function isStranger(letter: Letter, order: OrderView): boolean {
  return letter.from !== undefined && letter.from !== order.customerEmail
}

function whyNotReturnable(letter: Letter, order: OrderView): string | undefined {
  if (isStranger(letter, order)) return NOT_YOURS
  if (order.status !== 'delivered' || !order.deliveredOn) return `${order.id} is ${order.status}: there is nothing to give back yet.`
  if (dayAfter(order.deliveredOn, RETURN_DAYS) < order.today)
    return `${order.id} came more than ${RETURN_DAYS} days ago: too long for that, I am afraid.`
  return undefined
}
