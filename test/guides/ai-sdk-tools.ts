// The example of docs/ai-sdk-tools.md, compiled and run by our tests: tools of the AI SDK.
// #region guide
import { tool } from 'ai'
import { fromAiSdk } from '../../src/tools/index.ts'
import { z } from 'zod'

interface Refund {
  id: string
  cents: number
}
interface Shop {
  find(orderId: string): Promise<{ orderId: string; cents: number }>
  refund(orderId: string, cents: number, key: string): Promise<Refund>
  refundByKey(key: string): Promise<Refund | undefined>
}
interface CallContext {
  shop: Shop
  key: string
}
const given = (options: { experimental_context?: unknown }) => options.experimental_context as CallContext

const tools = {
  find_order: tool({
    description: 'Find an order by its number.',
    inputSchema: z.object({ orderId: z.string() }),
    execute: ({ orderId }, options) => given(options).shop.find(orderId),
  }),
  refund_order: tool({
    description: 'Refund an order to its original payment method.',
    inputSchema: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
    needsApproval: ({ cents }) => cents > 10_000,
    execute: ({ orderId, cents }, options) => given(options).shop.refund(orderId, cents, given(options).key),
    toModelOutput: ({ input, output }) => ({ type: 'text', value: `Refunded ${output.cents} cents of ${input.orderId}.` }),
  }),
}

export const orderTools = fromAiSdk.withTypes<{ services: { shop: Shop } }>()(tools, {
  effects: {
    find_order: 'read',
    refund_order: {
      effect: 'external',
      effectId: (refund) => refund.id,
      verify: async (_input, ctx) => {
        const found = await ctx.services.shop.refundByKey(ctx.idempotencyKey)
        return found ? { happened: true, result: found } : { happened: false }
      },
    },
  },
  context: (ctx) => ({ shop: ctx.services.shop, key: ctx.idempotencyKey }),
})
// #endregion
