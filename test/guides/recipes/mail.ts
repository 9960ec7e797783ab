// The example of docs/recipes.md, compiled and run by our tests: e-mail, with a provider that takes keys and with one that can be searched.
// #region guide
import { defineTool } from 'pawl'
import { z } from 'zod'
import { request } from './http.ts'

const input = z.object({ to: z.email(), subject: z.string(), text: z.string() })

const RESEND = process.env.RESEND_URL ?? 'https://api.resend.com'

export const sendMail = defineTool({
  name: 'send_mail',
  description: 'Send an e-mail to a customer.',
  input,
  effect: 'idempotent',
  execute: (mail, ctx) =>
    request<{ id: string }>(`${RESEND}/emails`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${process.env.RESEND_KEY}`,
        'content-type': 'application/json',
        'idempotency-key': ctx.idempotencyKey,
      },
      body: JSON.stringify({ from: 'Support <support@example.com>', ...mail }),
      signal: ctx.signal,
    }),
})

const POSTMARK = process.env.POSTMARK_URL ?? 'https://api.postmarkapp.com'
const headers = {
  accept: 'application/json',
  'content-type': 'application/json',
  'x-postmark-server-token': process.env.POSTMARK_TOKEN ?? '',
}

export const sendLetter = defineTool({
  name: 'send_letter',
  description: 'Send an e-mail to a customer.',
  input,
  effect: 'external',
  execute: async ({ to, subject, text }, ctx) => {
    const mail = { From: 'support@example.com', To: to, Subject: subject, TextBody: text, Metadata: { call_key: ctx.idempotencyKey } }
    const sent = await request<{ MessageID: string }>(`${POSTMARK}/email`, {
      method: 'POST',
      headers,
      body: JSON.stringify(mail),
      signal: ctx.signal,
    })
    return { id: sent.MessageID }
  },
  verify: async ({ to }, ctx) => {
    const query = new URLSearchParams({ count: '1', offset: '0', recipient: to, metadata_call_key: ctx.idempotencyKey })
    const found = await request<{ Messages: { MessageID: string }[] }>(`${POSTMARK}/messages/outbound?${query}`, {
      headers,
      signal: ctx.signal,
    })
    const [message] = found.Messages
    return message ? { happened: true, result: { id: message.MessageID } } : { happened: false }
  },
  // A message that was just sent may not be found at once.
  settleAfter: '1m',
  effectId: ({ id }) => id,
})
// #endregion
