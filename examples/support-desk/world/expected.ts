// What the shop must look like in the end: the records it started with, and each expected effect applied once. Pure.
import { isDeepStrictEqual } from 'node:util'
import type { Effect, Order, ShopRecords, ShopState } from '../shop/records.ts'
import type { World } from './tickets.ts'

/** The state of the shop after every expected effect of every ticket, each applied exactly once. */
export function expectedState(world: World): ShopState {
  const state: ShopState = { ...structuredClone(world.records), effects: [] }
  for (const ticket of world.tickets) for (const effect of ticket.expected) apply(state, effect)
  return state
}

function apply(state: ShopState, effect: Effect): void {
  state.effects.push(effect)
  if (!('orderId' in effect)) return
  const order = orderOf(state, effect.orderId)
  switch (effect.kind) {
    case 'refund':
      order.refundedCents += effect.cents
      break
    case 'exchange':
      order.lines = order.lines.map((line) => (line.sku === effect.sku ? { ...line, sku: effect.newSku } : line))
      moveStock(state, effect.newSku, -1)
      break
    case 'address_change':
      order.address = effect.address
      break
    case 'cancellation':
      order.status = 'cancelled'
      for (const line of order.lines) moveStock(state, line.sku, line.quantity)
      break
    case 'pickup':
    case 'email':
      break
  }
}

function orderOf(records: ShopRecords, id: string): Order {
  const order = records.orders.find((one) => one.id === id)
  if (!order) throw new Error(`No order ${id} in this world: the scenario that expects it is wrong.`)
  return order
}

function moveStock(state: ShopState, sku: string, by: number): void {
  for (const product of state.products) if (product.sku === sku) product.stock += by
}

/** Tells effects apart: two with the same identity are one effect applied twice. */
export function identityOf(effect: Effect): string {
  return JSON.stringify(
    Object.entries(effect).sort(([a], [b]) => (a < b ? -1 : 1)),
    (_key, value: unknown) =>
      value !== null && typeof value === 'object' && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value,
  )
}

/** How the effects that were applied compare with those that were expected. */
export interface EffectCount {
  expected: number
  applied: number
  /** Applications of an effect after its first. */
  duplicates: number
  missing: Effect[]
  unexpected: Effect[]
}

/** Compares effects by identity. */
export function countEffects(expected: readonly Effect[], applied: readonly Effect[]): EffectCount {
  const wanted = new Map(expected.map((effect) => [identityOf(effect), effect]))
  const found = new Map(applied.map((effect) => [identityOf(effect), effect]))
  return {
    expected: expected.length,
    applied: applied.length,
    duplicates: applied.length - found.size,
    missing: [...wanted].filter(([identity]) => !found.has(identity)).map(([, effect]) => effect),
    unexpected: [...found].filter(([identity]) => !wanted.has(identity)).map(([, effect]) => effect),
  }
}

/** What differs between two states of the shop, one line each; empty when they are the same. */
export function differences(expected: ShopState, actual: ShopState): string[] {
  return [
    ...rowDifferences('customer', expected.customers, actual.customers, (one) => one.id),
    ...rowDifferences('product', expected.products, actual.products, (one) => one.sku),
    ...rowDifferences('order', expected.orders, actual.orders, (one) => one.id),
    ...effectDifferences(expected.effects, actual.effects),
  ]
}

function rowDifferences<T extends object>(what: string, expected: readonly T[], actual: readonly T[], idOf: (row: T) => string): string[] {
  const there = new Map(actual.map((row) => [idOf(row), row]))
  const lines = expected.flatMap((row) => {
    const found = there.get(idOf(row))
    there.delete(idOf(row))
    if (isDeepStrictEqual(found, row)) return []
    return [`${what} ${idOf(row)}: expected ${JSON.stringify(row)}, is ${found ? JSON.stringify(found) : 'not there'}`]
  })
  return [...lines, ...[...there.keys()].map((id) => `${what} ${id}: not expected, but there`)]
}

function effectDifferences(expected: readonly Effect[], actual: readonly Effect[]): string[] {
  const times = new Map<string, number>()
  for (const effect of actual) times.set(identityOf(effect), (times.get(identityOf(effect)) ?? 0) + 1)
  for (const effect of expected) times.set(identityOf(effect), (times.get(identityOf(effect)) ?? 0) - 1)
  const all = new Map([...expected, ...actual].map((effect) => [identityOf(effect), effect]))
  return [...times].flatMap(([identity, balance]) => {
    if (balance === 0) return []
    const what = JSON.stringify(all.get(identity))
    return [balance > 0 ? `effect applied too often, by ${balance}: ${what}` : `effect missing: ${what}`]
  })
}
