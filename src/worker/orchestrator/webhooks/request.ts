// The request of a notification: its body and its signature, by the Standard Webhooks specification.
import { createHash, createHmac } from 'node:crypto'
import type { JsonObject } from '../../../session/json.ts'
import type { SessionEvent } from '../../../session/events.ts'
import type { ActiveWebhook, StoredDelivery } from '../../../store/webhooks.ts'

/** A request, ready to be sent. */
export interface WebhookRequest {
  body: string
  headers: Record<string, string>
}

/** `event`: the event as it is stored, if the webhook sends content. `at`: the time of the request, which the signature covers. */
export function requestFor(
  { id, secret }: Pick<ActiveWebhook, 'id' | 'secret'>,
  delivery: StoredDelivery,
  at: Date,
  event?: SessionEvent,
): WebhookRequest {
  const { sessionId, seq, agent, type, facts, happenedAt } = delivery
  const data: JsonObject = { sessionId, agent, seq, ...facts, ...(event && { event: event as unknown as JsonObject }) }
  const body = JSON.stringify({ type, timestamp: happenedAt.toISOString(), data })
  const messageId = messageIdOf(id, sessionId, seq)
  const timestamp = String(Math.floor(at.getTime() / 1_000))
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'pawl-webhooks',
      'webhook-id': messageId,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatureOf(secret, `${messageId}.${timestamp}.${body}`),
    },
  }
}

/** Version 1: HMAC-SHA256, in base64. `secret`: `whsec_` and the key in base64. */
function signatureOf(secret: string, signed: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`
}

/** The same for each request of a notification, so that a receiver recognises a repeated one. */
function messageIdOf(webhookId: string, sessionId: string, seq: number): string {
  return `msg_${createHash('sha256').update(`${webhookId}\n${sessionId}\n${seq}`).digest('hex').slice(0, 32)}`
}
