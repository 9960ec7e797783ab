// The retail tools that write: all checks in order, then the change.
import { credit, isGiftCardId, listedTooOften, methodOf, orderOf, ownOf, refuse, requireBalance, requireStatus, userOf } from './checks.ts'
import {
  type Address,
  type Database,
  type Item,
  type Order,
  type Payment,
  type User,
  type Variant,
  withOrder,
  withUser,
} from './database.ts'
import { round2 } from './numbers.ts'

/** A tool that writes: the next database, and the order or user that is its result. Refuses by throwing. */
export type Writing<A> = (database: Database, args: A) => { database: Database; show: Order | User }

const firstItem = (order: Order, itemId: string) => order.items.find((item) => item.item_id === itemId)

interface SwapArgs {
  order_id: string
  item_ids: string[]
  new_item_ids: string[]
  payment_method_id: string
}

/** The checks that exchanges and modifications share, up to the variants and the unrounded price difference. */
function planSwap(database: Database, order: Order, { item_ids, new_item_ids }: SwapArgs): { variants: Variant[]; difference: number } {
  const missing = listedTooOften(order, item_ids)
  if (missing !== undefined) refuse(`${missing} not found`)
  if (item_ids.length !== new_item_ids.length) refuse('the number of items to be exchanged should match')
  let difference = 0
  const variants = item_ids.map((oldId, index) => {
    const item = firstItem(order, oldId) as Item
    const newId = new_item_ids[index] as string
    const variant = ownOf(database.products[item.product_id]?.variants ?? {}, newId)
    if (!variant?.available) return refuse(`new item ${newId} not found or available`)
    difference += variant.price - item.price
    return variant
  })
  return { variants, difference }
}

export const exchangeDelivered: Writing<SwapArgs> = (database, args) => {
  const order = orderOf(database, args.order_id)
  requireStatus(order, 'delivered', 'exchanged')
  const difference = round2(planSwap(database, order, args).difference)
  requireBalance(methodOf(database, order, args.payment_method_id), difference, 'price difference')
  const show: Order = {
    ...order,
    status: 'exchange requested',
    exchange_items: args.item_ids.toSorted(),
    exchange_new_items: args.new_item_ids.toSorted(),
    exchange_payment_method_id: args.payment_method_id,
    exchange_price_difference: difference,
  }
  return { database: withOrder(database, show), show }
}

export const modifyItems: Writing<SwapArgs> = (database, args) => {
  const order = orderOf(database, args.order_id)
  requireStatus(order, 'pending', 'modified')
  const { variants, difference } = planSwap(database, order, args)
  const method = methodOf(database, order, args.payment_method_id)
  requireBalance(method, difference, 'new item')
  const payment: Payment = {
    transaction_type: difference > 0 ? 'payment' : 'refund',
    amount: Math.abs(difference),
    payment_method_id: args.payment_method_id,
  }
  const show: Order = {
    ...order,
    items: swapItems(order, args.item_ids, variants),
    status: 'pending (item modified)',
    payment_history: [...order.payment_history, payment],
  }
  const charged = method.source === 'gift_card' ? credit(database, order, method.id, -difference) : database
  return { database: withOrder(charged, show), show }
}

/** Replaces, pair by pair, the first item that has the old id *by then*: an earlier pair may have produced one. */
function swapItems(order: Order, oldIds: string[], variants: Variant[]): Item[] {
  const items = [...order.items]
  for (const [index, oldId] of oldIds.entries()) {
    const at = items.findIndex((item) => item.item_id === oldId)
    const { item_id, price, options } = variants[index] as Variant
    items[at] = { ...(items[at] as Item), item_id, price, options }
  }
  return items
}

export const cancelPending: Writing<{ order_id: string; reason: string }> = (database, { order_id, reason }) => {
  const order = orderOf(database, order_id)
  requireStatus(order, 'pending', 'cancelled')
  if (reason !== 'no longer needed' && reason !== 'ordered by mistake') refuse('invalid reason')
  const refunds = order.payment_history.map(
    ({ amount, payment_method_id }): Payment => ({ transaction_type: 'refund', amount, payment_method_id }),
  )
  const refunded = refunds
    .filter((refund) => isGiftCardId(refund.payment_method_id))
    .reduce((so_far, refund) => credit(so_far, order, refund.payment_method_id, refund.amount), database)
  const show: Order = { ...order, status: 'cancelled', payment_history: [...order.payment_history, ...refunds], cancel_reason: reason }
  return { database: withOrder(refunded, show), show }
}

export const modifyPayment: Writing<{ order_id: string; payment_method_id: string }> = (database, { order_id, payment_method_id }) => {
  const order = orderOf(database, order_id)
  requireStatus(order, 'pending', 'modified')
  const method = methodOf(database, order, payment_method_id)
  const [paid, ...more] = order.payment_history
  if (!paid || more.length > 0 || paid.transaction_type !== 'payment') {
    return refuse('there should be exactly one payment for a pending order')
  }
  const { amount, payment_method_id: oldId } = paid
  if (oldId === payment_method_id) refuse('the new payment method should be different from the current one')
  requireBalance(method, amount, 'order')
  const show: Order = {
    ...order,
    payment_history: [
      paid,
      { transaction_type: 'payment', amount, payment_method_id },
      { transaction_type: 'refund', amount, payment_method_id: oldId },
    ],
  }
  const charged = method.source === 'gift_card' ? credit(database, order, payment_method_id, -amount) : database
  const refunded = isGiftCardId(oldId) ? credit(charged, order, oldId, amount) : charged
  return { database: withOrder(refunded, show), show }
}

const addressFrom = ({ address1, address2, city, state, country, zip }: Address): Address => ({
  address1,
  address2,
  city,
  state,
  country,
  zip,
})

export const modifyOrderAddress: Writing<Address & { order_id: string }> = (database, args) => {
  const order = orderOf(database, args.order_id)
  requireStatus(order, 'pending', 'modified')
  const show: Order = { ...order, address: addressFrom(args) }
  return { database: withOrder(database, show), show }
}

export const modifyUserAddress: Writing<Address & { user_id: string }> = (database, args) => {
  const show: User = { ...userOf(database, args.user_id), address: addressFrom(args) }
  return { database: withUser(database, args.user_id, show), show }
}

export const returnDelivered: Writing<{ order_id: string; item_ids: string[]; payment_method_id: string }> = (database, args) => {
  const { order_id, item_ids, payment_method_id } = args
  const order = orderOf(database, order_id)
  requireStatus(order, 'delivered', 'returned')
  methodOf(database, order, payment_method_id)
  if (!isGiftCardId(payment_method_id) && payment_method_id !== order.payment_history[0]?.payment_method_id) {
    refuse('payment method should be either the original payment method or a gift card')
  }
  if (listedTooOften(order, item_ids) !== undefined) refuse('some item not found')
  const show: Order = {
    ...order,
    status: 'return requested',
    return_items: item_ids.toSorted(),
    return_payment_method_id: payment_method_id,
  }
  return { database: withOrder(database, show), show }
}
