// The example of docs/recipes.md, compiled and run by our tests: a refund through Stripe.
// #region guide
import { defineTool } from 'pawl'
import { z } from 'zod'
import { request } from './http.ts'

const STRIPE = process.env.STRIPE_URL ?? 'https://api.stripe.com'
const authorization = `Bearer ${process.env.STRIPE_KEY}`

interface Refund {
  id: string
  amount: number
  metadata: Record<string, string>
}

export const refundPayment = defineTool({
  name: 'refund_payment',
  description: 'Refund a payment, in part or as a whole.',
  input: z.object({ paymentIntent: z.string(), cents: z.number().int().positive() }),
  effect: 'external',
  execute: ({ paymentIntent, cents }, ctx) =>
    request<Refund>(`${STRIPE}/v1/refunds`, {
      method: 'POST',
      headers: { authorization, 'idempotency-key': ctx.idempotencyKey },
      body: String(new URLSearchParams({ payment_intent: paymentIntent, amount: String(cents), 'metadata[call_key]': ctx.idempotencyKey })),
      signal: ctx.signal,
    }),
  verify: async ({ paymentIntent }, ctx) => {
    for (let after = ''; ; ) {
      const query = new URLSearchParams({ payment_intent: paymentIntent, limit: '100', ...(after && { starting_after: after }) })
      const url = `${STRIPE}/v1/refunds?${query}`
      const page = await request<{ data: Refund[]; has_more: boolean }>(url, { headers: { authorization }, signal: ctx.signal })
      const found = page.data.find(({ metadata }) => metadata.call_key === ctx.idempotencyKey)
      if (found) return { happened: true, result: found }
      const last = page.data.at(-1)
      if (!page.has_more || !last) return { happened: false }
      after = last.id
    }
  },
  effectId: ({ id }) => id,
  toModel: ({ id, amount }) => `Refund ${id} of ${amount} cents.`,
})
// #endregion
