// Tools that change an order: the shop recognises a repeat by its key (or because the change is already made).
import { z } from 'zod'
import { deskTool, path, shopFor } from './context.ts'

const orderId = z.string().describe('An order number such as W-1042.')

export const refundOrder = deskTool({
  name: 'refund_order',
  description: 'Refund an amount of an order to its original payment method.',
  input: z.object({ orderId, cents: z.number().int().positive(), reason: z.string().min(1) }),
  effect: 'idempotent',
  execute: ({ orderId, ...body }, ctx) =>
    shopFor(ctx).send<{ refundId: string; cents: number }>('POST', path`/orders/${orderId}/refunds`, body, { key: ctx.idempotencyKey }),
  effectId: (refund) => refund.refundId,
})

export const exchangeItem = deskTool({
  name: 'exchange_item',
  description: 'Exchange one item of a delivered order for another option of the same product.',
  input: z.object({ orderId, sku: z.string(), newSku: z.string() }),
  effect: 'idempotent',
  execute: ({ orderId, ...body }, ctx) =>
    shopFor(ctx).send<{ exchangeId: string }>('POST', path`/orders/${orderId}/exchanges`, body, { key: ctx.idempotencyKey }),
  effectId: (exchange) => exchange.exchangeId,
})

export const cancelOrder = deskTool({
  name: 'cancel_order',
  description: 'Cancel an order that is still pending. Does not refund it.',
  input: z.object({ orderId }),
  effect: 'idempotent',
  execute: ({ orderId }, ctx) =>
    shopFor(ctx).send<{ cancellationId: string }>('POST', path`/orders/${orderId}/cancellation`, {}, { key: ctx.idempotencyKey }),
  effectId: (cancellation) => cancellation.cancellationId,
})

export const changeAddress = deskTool({
  name: 'change_address',
  description: 'Change where an order that is still pending is sent to.',
  input: z.object({
    orderId,
    address: z.object({ line: z.string(), city: z.string(), zip: z.string(), country: z.string().length(2) }),
  }),
  effect: 'idempotent',
  execute: ({ orderId, address }, ctx) => shopFor(ctx).send<{ orderId: string }>('PUT', path`/orders/${orderId}/address`, address),
})
