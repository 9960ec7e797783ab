// Tools that only look: safe to repeat, so several of one turn run side by side.
import { z } from 'zod'
import type { Customer, Order, OrderLine } from '../shop/records.ts'
import { deskTool, path, shopFor } from './context.ts'

const orderId = z.string().describe('An order number such as W-1042.')

/** An order, as the shop returns it. */
export interface OrderView extends Order {
  customerEmail: string
  today: string
  lines: (OrderLine & { productId: string; name: string; option: string })[]
}

export const findCustomer = deskTool({
  name: 'find_customer',
  description: 'Find a customer by e-mail address: id, name and loyalty tier.',
  input: z.object({ email: z.string() }),
  effect: 'read',
  execute: ({ email }, ctx) => shopFor(ctx).get<Customer>(path`/customers?email=${email}`),
})

export const listOrders = deskTool({
  name: 'list_orders',
  description: "A customer's orders, the newest first.",
  input: z.object({ customerId: z.string() }),
  effect: 'read',
  execute: ({ customerId }, ctx) => shopFor(ctx).get<{ orders: OrderView[] }>(path`/customers/${customerId}/orders`),
})

export const getOrder = deskTool({
  name: 'get_order',
  description: "One order: status, dates, lines, address, what was refunded, its customer's e-mail address, and today's date.",
  input: z.object({ orderId }),
  effect: 'read',
  execute: (input, ctx) => shopFor(ctx).get<OrderView>(path`/orders/${input.orderId}`),
})

export const trackParcel = deskTool({
  name: 'track_parcel',
  description: 'Where the parcel of an order is, and by how many days it is late.',
  input: z.object({ orderId }),
  effect: 'read',
  execute: (input, ctx) => shopFor(ctx).get<{ status: string; daysLate: number }>(path`/orders/${input.orderId}/parcel`),
})

export const searchProducts = deskTool({
  name: 'search_products',
  description: 'Find products by a part of their name.',
  input: z.object({ query: z.string() }),
  effect: 'read',
  execute: ({ query }, ctx) => shopFor(ctx).get<{ products: { productId: string; name: string }[] }>(path`/products?q=${query}`),
})

export const getProduct = deskTool({
  name: 'get_product',
  description: 'One product: price and the options it comes in, each with its sku.',
  input: z.object({ productId: z.string() }),
  effect: 'read',
  execute: ({ productId }, ctx) =>
    shopFor(ctx).get<{ cents: number; options: { sku: string; option: string }[] }>(path`/products/${productId}`),
})

export const checkStock = deskTool({
  name: 'check_stock',
  description: 'Whether an option of a product, by its sku, is in stock.',
  input: z.object({ sku: z.string() }),
  effect: 'read',
  execute: ({ sku }, ctx) => shopFor(ctx).get<{ sku: string; inStock: boolean }>(path`/stock/${sku}`),
})

export const shippingQuote = deskTool({
  name: 'shipping_quote',
  description: 'What shipping to a country costs, in cents.',
  input: z.object({ country: z.string().length(2).describe('Two letters, such as CH.') }),
  effect: 'read',
  execute: ({ country }, ctx) => shopFor(ctx).get<{ cents: number }>(path`/shipping-quote?country=${country}`),
})

export const listEmails = deskTool({
  name: 'list_emails',
  description: 'The e-mails that were sent about an order. Look here when you do not know whether an e-mail went out.',
  input: z.object({ orderId }),
  effect: 'read',
  execute: (input, ctx) => shopFor(ctx).get<{ emails: { emailId: string; template: string }[] }>(path`/orders/${input.orderId}/emails`),
})
