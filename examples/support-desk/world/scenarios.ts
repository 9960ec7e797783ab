// The kinds of tickets: the customer's letter, the shop's records, and the outcome by the house rules.
import type { Customer, Effect, Order } from '../shop/records.ts'
import type { OrderWish, WorldBuilder } from './builder.ts'
import { integer, pick } from './random.ts'

/** One ticket, before it has a number. `turns` is what the house rules need when nothing goes wrong. */
export interface Made {
  customer: Customer
  bodies: string[]
  expected: Effect[]
  turns: number
}

const COUPON_CENTS = { standard: 500, silver: 1_000, gold: 2_000 } as const

/** A customer with one order, made into a ticket. */
function about(world: WorldBuilder, wish: OrderWish, make: (order: Order, customer: Customer) => Omit<Made, 'customer'>): Made {
  const customer = world.customer()
  return { customer, ...make(world.order(customer, wish), customer) }
}

const paid = (order: Order): number => order.lines.reduce((sum, line) => sum + line.cents * line.quantity, 0) - order.refundedCents

const refunded = (order: Order): Effect[] => [
  { kind: 'refund', orderId: order.id, cents: paid(order) },
  { kind: 'email', orderId: order.id, template: 'refund_confirmed' },
]

const complaint = (world: WorldBuilder, order: Order): string =>
  pick(world.random, [
    `Order ${order.id} arrived broken, please refund.`,
    `My parcel for ${order.id} came damaged: it is in pieces. I want my money back.`,
    `Hello! ${order.id} was defective when I opened the box. Could you refund it?`,
  ])

export const SCENARIOS: Readonly<Record<string, (world: WorldBuilder) => Made>> = {
  broken: (world) =>
    about(world, { status: 'delivered' }, (order) => ({ bodies: [complaint(world, order)], expected: refunded(order), turns: 4 })),

  broken_partly_refunded: (world) =>
    about(world, { status: 'delivered', refundedCents: integer(world.random, 3, 15) * 100 }, (order) => ({
      bodies: [`${complaint(world, order)} You already gave me a part of it, I would like the rest.`],
      expected: refunded(order),
      turns: 4,
    })),

  broken_too_long_ago: (world) =>
    about(world, { status: 'delivered', deliveredDaysAgo: integer(world.random, 31, 90) }, (order) => ({
      bodies: [complaint(world, order)],
      expected: [],
      turns: 2,
    })),

  broken_of_another_customer: (world) => {
    const order = world.order(world.customer(), { status: 'delivered' })
    return { customer: world.customer(), bodies: [complaint(world, order)], expected: [], turns: 2 }
  },

  unknown_order: (world) => {
    const customer = world.customer()
    return { customer, bodies: [`Order ${world.unusedOrderId()} arrived broken, please refund.`], expected: [], turns: 2 }
  },

  broken_without_number: (world) => {
    const customer = world.customer()
    const product = world.product()
    const order = world.order(customer, { status: 'delivered', product })
    world.order(customer, { status: 'delivered', deliveredDaysAgo: 200, product: otherThan(world, product.productId) })
    return {
      customer,
      bodies: [`Hi, the ${product.name} I bought from you is broken. Refund please!`],
      expected: refunded(order),
      turns: 6,
    }
  },

  send_back: (world) => {
    const window = pick(world.random, ['morning', 'afternoon'] as const)
    const when = window === 'afternoon' ? ' The courier should come in the afternoon.' : ''
    return about(world, { status: 'delivered' }, (order) => ({
      bodies: [`I do not like what I got with ${order.id} and would like to send it back.${when}`],
      expected: [...refunded(order), { kind: 'pickup', orderId: order.id, window }],
      turns: 5,
    }))
  },

  late: (world) => {
    const arrived = world.random() < 0.5
    return about(world, { status: arrived ? 'delivered' : 'shipped', daysLate: integer(world.random, 3, 9) }, (order, customer) => ({
      bodies: [arrived ? `${order.id} came far too late. Not amused.` : `${order.id} is late! I am still waiting for it.`],
      expected: lateEffects(order, customer),
      turns: 4,
    }))
  },

  late_but_not_by_much: (world) =>
    about(world, { status: 'delivered', daysLate: integer(world.random, -2, 2) }, (order) => ({
      bodies: [`${order.id} came late, what do I get for that?`],
      expected: [],
      turns: 2,
    })),

  moved: (world) => {
    const { line, zip, city, country } = world.address()
    return about(world, { status: 'pending' }, (order) => ({
      bodies: [`I have moved. Please send ${order.id} to my new address: ${line}, ${zip} ${city}, ${country}.`],
      expected: movedEffects(order, { line, zip, city, country }),
      turns: 4,
    }))
  },

  moved_too_late: (world) => {
    const { line, zip, city, country } = world.address()
    return about(world, { status: 'shipped' }, (order) => ({
      bodies: [`I have moved. Please send ${order.id} to my new address: ${line}, ${zip} ${city}, ${country}.`],
      expected: [],
      turns: 2,
    }))
  },

  exchange: (world) => {
    const product = world.product()
    const wanted = world.sibling(product, 'in_stock')
    return about(world, { status: 'delivered', product }, (order) => ({
      bodies: [`The ${product.name} of order ${order.id} is not right for me. Could I have it in ${wanted.option} instead?`],
      expected: exchangeEffects(order, wanted.sku),
      turns: 7,
    }))
  },

  exchange_sold_out: (world) => {
    const product = world.product('with_sold_out_sibling')
    const wanted = world.sibling(product, 'sold_out')
    return about(world, { status: 'delivered', product }, (order) => ({
      bodies: [`I ordered the ${product.name} (${order.id}). Please exchange it for ${wanted.option} instead, or else refund me.`],
      expected: [...refunded(order), { kind: 'pickup', orderId: order.id, window: 'morning' }],
      turns: 7,
    }))
  },

  exchange_without_number: (world) => {
    const product = world.product()
    const wanted = world.sibling(product, 'in_stock')
    return about(world, { status: 'delivered', product }, (order) => ({
      bodies: [
        `The ${product.name} I got from you does not suit me. Could you swap it for ${wanted.option} instead? The order number is lost.`,
      ],
      expected: exchangeEffects(order, wanted.sku),
      turns: 9,
    }))
  },

  cancel: (world) =>
    about(world, { status: 'pending' }, (order) => ({ bodies: [`Please cancel ${order.id}.`], expected: cancelEffects(order), turns: 5 })),

  cancel_too_late: (world) =>
    about(world, { status: 'shipped' }, (order) => ({ bodies: [`I changed my mind, cancel ${order.id} please.`], expected: [], turns: 2 })),

  where_is_it: (world) => {
    const customer = world.customer()
    for (const status of ['shipped', 'delivered', 'pending'] as const) world.order(customer, { status })
    return { customer, bodies: ['Where are my parcels? I have lost track.'], expected: [], turns: 4 }
  },

  question: (world) => {
    const product = world.product()
    const { country } = world.address()
    const body = `Do you have the ${product.name} in ${product.option}, and what does shipping to ${country} cost?`
    return { customer: world.customer(), bodies: [body], expected: [], turns: 4 }
  },

  moved_then_cancel: (world) => {
    const customer = world.customer()
    const [first, second] = [world.order(customer, { status: 'pending' }), world.order(customer, { status: 'pending' })]
    const { line, zip, city, country } = world.address()
    return {
      customer,
      bodies: [
        `Please change the address of ${first.id} to: ${line}, ${zip} ${city}, ${country}.`,
        `Thank you! And cancel my other order, ${second.id}, please.`,
      ],
      expected: [...movedEffects(first, { line, zip, city, country }), ...cancelEffects(second)],
      turns: 9,
    }
  },

  late_then_question: (world) => {
    const product = world.product()
    return about(world, { status: 'delivered', daysLate: integer(world.random, 3, 9) }, (order, customer) => ({
      bodies: [
        `${order.id} came late, and nobody told me.`,
        `That is kind. Do you have the ${product.name} in ${product.option}, and what does shipping to CH cost?`,
      ],
      expected: lateEffects(order, customer),
      turns: 8,
    }))
  },
}

function lateEffects(order: Order, customer: Customer): Effect[] {
  return [
    { kind: 'coupon', customerId: customer.id, cents: COUPON_CENTS[customer.tier] },
    { kind: 'email', orderId: order.id, template: 'apology' },
  ]
}

function movedEffects(order: Order, address: Order['address']): Effect[] {
  return [
    { kind: 'address_change', orderId: order.id, address },
    { kind: 'email', orderId: order.id, template: 'address_changed' },
  ]
}

function exchangeEffects(order: Order, newSku: string): Effect[] {
  return [
    { kind: 'exchange', orderId: order.id, sku: order.lines[0]?.sku ?? '', newSku },
    { kind: 'pickup', orderId: order.id, window: 'morning' },
    { kind: 'email', orderId: order.id, template: 'exchange_confirmed' },
  ]
}

function cancelEffects(order: Order): Effect[] {
  return [
    { kind: 'cancellation', orderId: order.id },
    { kind: 'refund', orderId: order.id, cents: paid(order) },
    { kind: 'email', orderId: order.id, template: 'cancellation_confirmed' },
  ]
}

function otherThan(world: WorldBuilder, productId: string) {
  return pick(
    world.random,
    world.records.products.filter((one) => one.productId !== productId && one.stock > 0),
  )
}
