// Tools that send something out into the world: the shop carries out a repeat again, so pawl must never make one.
import { z } from 'zod'
import { deskTool, path, shopFor } from './context.ts'

const orderId = z.string().describe('An order number such as W-1042.')

interface Coupon {
  couponId: string
  cents: number
}

export const sendCoupon = deskTool({
  name: 'send_coupon',
  description: 'Send a customer a goodwill coupon.',
  input: z.object({ customerId: z.string(), cents: z.number().int().positive(), reason: z.string().min(1) }),
  effect: 'external',
  execute: (input, ctx) => shopFor(ctx).send<Coupon>('POST', '/coupons', { ...input, reference: ctx.idempotencyKey }),
  effectId: (coupon) => coupon.couponId,
  settleAfter: '1s', // the shop answers within that, or drops the request
  verify: async (_input, ctx) => {
    const { coupons } = await shopFor(ctx).get<{ coupons: Coupon[] }>(path`/coupons?reference=${ctx.idempotencyKey}`)
    return coupons[0] ? { happened: true, result: coupons[0] } : { happened: false }
  },
})

interface Pickup {
  pickupId: string
  orderId: string
  window: string
}

export const bookPickup = deskTool({
  name: 'book_pickup',
  description: 'Book a courier who picks up what a customer sends back.',
  input: z.object({ orderId, window: z.enum(['morning', 'afternoon']) }),
  effect: 'external',
  execute: (input, ctx) => shopFor(ctx).send<Pickup>('POST', '/pickups', { ...input, reference: ctx.idempotencyKey }),
  effectId: (pickup) => pickup.pickupId,
  settleAfter: '1s', // the shop answers within that, or drops the request
  verify: async (_input, ctx) => {
    const { pickups } = await shopFor(ctx).get<{ pickups: Pickup[] }>(path`/pickups?reference=${ctx.idempotencyKey}`)
    return pickups[0] ? { happened: true, result: pickups[0] } : { happened: false }
  },
})

/** No `verify`: if it is unknown whether the e-mail was sent, the model is told, and checks with `list_emails`. */
export const emailCustomer = deskTool({
  name: 'email_customer',
  description:
    'Send the customer of an order an e-mail. If its outcome is unknown, look with list_emails; only if it is not there, send again with the next number of `attempt`.',
  input: z.object({
    orderId,
    template: z.enum(['refund_confirmed', 'exchange_confirmed', 'address_changed', 'cancellation_confirmed', 'apology']),
    note: z.string().optional().describe('A personal sentence to go with the template.'),
    attempt: z
      .number()
      .int()
      .min(2)
      .optional()
      .describe('Only for a second, third … try, after list_emails showed that the last one did not go out.'),
  }),
  effect: 'external',
  onUnknown: 'tell_model',
  execute: ({ orderId, template, note }, ctx) =>
    shopFor(ctx).send<{ emailId: string }>('POST', path`/orders/${orderId}/emails`, { template, note }),
  effectId: (email) => email.emailId,
})
