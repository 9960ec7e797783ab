// The example of docs/recipes.md, compiled and run by our tests: a text message through Twilio, which takes no keys.
// #region guide
import { defineTool } from 'pawl'
import { z } from 'zod'
import { request } from './http.ts'

const TWILIO = process.env.TWILIO_URL ?? 'https://api.twilio.com'
const account = process.env.TWILIO_ACCOUNT_SID ?? ''
const messages = `${TWILIO}/2010-04-01/Accounts/${account}/Messages.json`
const authorization = `Basic ${Buffer.from(`${account}:${process.env.TWILIO_AUTH_TOKEN}`).toString('base64')}`

interface Message {
  sid: string
  body: string
  direction: string
}

/** Short enough for a text message: 10 characters tell the messages to one number apart. */
const referenceOf = (key: string): string => `Ref ${key.slice(0, 10)}`

export const sendText = defineTool({
  name: 'send_text',
  description: 'Send a text message to a customer.',
  input: z.object({ to: z.string().regex(/^\+\d{6,15}$/), text: z.string().max(300) }),
  effect: 'external',
  execute: ({ to, text }, ctx) =>
    request<Message>(messages, {
      method: 'POST',
      headers: { authorization },
      body: String(
        new URLSearchParams({
          To: to,
          From: process.env.TWILIO_FROM ?? '+15005550006',
          Body: `${text}\n${referenceOf(ctx.idempotencyKey)}`,
        }),
      ),
      signal: ctx.signal,
    }),
  verify: async ({ to }, ctx) => {
    const url = `${messages}?${new URLSearchParams({ To: to, PageSize: '1000' })}`
    const page = await request<{ messages: Message[]; next_page_uri: string | null }>(url, {
      headers: { authorization },
      signal: ctx.signal,
    })
    const found = page.messages.find((one) => one.direction.startsWith('outbound') && one.body.endsWith(referenceOf(ctx.idempotencyKey)))
    if (found) return { happened: true, result: found }
    // The newest thousand do not have it. It is not among the older ones, either, unless very many have been sent since.
    return page.next_page_uri ? { happened: 'unknown' } : { happened: false }
  },
  settleAfter: '1m',
  effectId: ({ sid }) => sid,
  toModel: ({ sid }) => `Sent as ${sid}.`,
})
// #endregion
