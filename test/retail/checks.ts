// What the retail tools look up and check before they do anything, and how they refuse.
import { type Database, type Order, type PaymentMethod, type User, withUser } from './database.ts'
import { round2 } from './numbers.ts'

/** A refusal: an ordinary result, whose text begins with `Error: `. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
}

/** Ends a tool with the result `Error: <reason>`. */
export function refuse(reason: string): never {
  throw new Refusal(reason)
}

/** The order. Refuses an unknown one. */
export function orderOf(database: Database, orderId: string): Order {
  return ownOf(database.orders, orderId) ?? refuse('order not found')
}

/** The user. Refuses an unknown one. */
export function userOf(database: Database, userId: string): User {
  return ownOf(database.users, userId) ?? refuse('user not found')
}

/** The value of an own key: ids come from a model, which may well say "constructor". */
export function ownOf<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}

/** Refuses an order of any other status. */
export function requireStatus(order: Order, status: string, what: string): void {
  if (order.status !== status) refuse(`non-${status} order cannot be ${what}`)
}

/** A payment method of the order's user. Refuses any other. */
export function methodOf(database: Database, order: Order, methodId: string): PaymentMethod {
  return ownOf(userOf(database, order.user_id).payment_methods, methodId) ?? refuse('payment method not found')
}

/** Refuses a gift card that holds less than `amount`. */
export function requireBalance(method: PaymentMethod, amount: number, what: string): void {
  if (method.source === 'gift_card' && !((method.balance ?? 0) >= amount)) {
    refuse(`insufficient gift card balance to pay for the ${what}`)
  }
}

/** Adds `amount` to the balance of a gift card of the order's user. */
export function credit(database: Database, order: Order, methodId: string, amount: number): Database {
  const user = userOf(database, order.user_id)
  const card = methodOf(database, order, methodId)
  const credited = { ...card, balance: round2((card.balance ?? 0) + amount) }
  return withUser(database, order.user_id, { ...user, payment_methods: { ...user.payment_methods, [methodId]: credited } })
}

/** Whether an id belongs to a gift card, by the workload's convention. */
export const isGiftCardId = (methodId: string) => methodId.includes('gift_card')

/** The first id that is listed more often than the order contains it. */
export function listedTooOften(order: Order, itemIds: string[]): string | undefined {
  const count = (ids: string[], id: string) => ids.filter((one) => one === id).length
  const held = order.items.map((item) => item.item_id)
  return itemIds.find((id) => count(itemIds, id) > count(held, id))
}
