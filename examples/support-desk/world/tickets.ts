// The tickets of one run and the shop they are about: made from a seed, with the effects that each must have.
import type { Customer, Effect, Order, ShopRecords } from '../shop/records.ts'
import { worldBuilder } from './builder.ts'
import { randomFrom, shuffled } from './random.ts'
import { SCENARIOS } from './scenarios.ts'

/** One customer's ticket. */
export interface Ticket {
  /** `T-001`, … */
  id: string
  /** Which kind of ticket it is. */
  scenario: string
  customer: Customer
  /** What the customer writes, one after another: the next message follows the answer to the one before. */
  messages: string[]
  /** What the desk must do to the world, and nothing else. In no particular order. */
  expected: Effect[]
  /** How many turns the house rules need for it when nothing goes wrong. Used to pace the run only. */
  turns: number
}

/** The tickets and the shop's records before the first of them is worked on. */
export interface World {
  seed: number
  records: ShopRecords
  tickets: Ticket[]
}

/** The world of a seed: `count` tickets, every scenario used about equally often. The same arguments give the same world. */
export function makeWorld(seed: number, count: number): World {
  const random = randomFrom(seed, 'world')
  const builder = worldBuilder(random, count)
  const tickets: Ticket[] = []
  while (tickets.length < count) {
    for (const [scenario, make] of shuffled(random, Object.entries(SCENARIOS)).slice(0, count - tickets.length)) {
      const { customer, bodies, expected, turns } = make(builder)
      const id = `T-${String(tickets.length + 1).padStart(3, '0')}`
      tickets.push({ id, scenario, customer, messages: bodies.map((body) => letter(customer, body)), expected, turns })
    }
  }
  addBystanders(builder)
  return { seed, records: builder.records, tickets }
}

function letter(customer: Customer, body: string): string {
  return `From: ${customer.name} <${customer.email}>\n\n${body}`
}

/** Customers and orders that no ticket is about: whatever happens to them is a mistake. */
function addBystanders(builder: ReturnType<typeof worldBuilder>): Order[] {
  const statuses: readonly Order['status'][] = [
    'pending',
    'shipped',
    'delivered',
    'delivered',
    'pending',
    'shipped',
    'delivered',
    'delivered',
  ]
  return statuses.map((status) => builder.order(builder.customer(), { status }))
}
