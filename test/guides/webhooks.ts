// The example of docs/webhooks.md, compiled and run by our tests: a receiver that posts to a Slack channel, and mails those on call.
// #region guide
import { Hono } from 'hono'
import { Webhook } from 'standardwebhooks'

interface Notification {
  type: 'call.waiting' | 'run.completed' | 'run.interrupted' | 'session.error' | 'budget.warning'
  timestamp: string
  data: { sessionId: string; agent: string; seq: number; kind?: string; tool?: string; callId?: string; code?: string }
}

const SLACK = process.env.SLACK_WEBHOOK_URL ?? ''
const POSTMARK = process.env.POSTMARK_URL ?? 'https://api.postmarkapp.com'
const webhook = new Webhook(process.env.PAWL_WEBHOOK_SECRET ?? '')

export const app = new Hono()

app.post('/pawl', async (c) => {
  const body = await c.req.text()
  let told: Notification
  try {
    told = webhook.verify(body, c.req.header()) as Notification
  } catch {
    return c.text('the signature does not match', 401)
  }
  // A status from 200 to 299 says that you have it. Anything else, and pawl sends it again.
  if (told.type === 'call.waiting') await slack(`${told.data.tool} waits (${told.data.kind}): \`pawl show ${told.data.sessionId}\``)
  if (told.type === 'session.error') await mail(`${told.data.sessionId} is in error: ${told.data.code}`, c.req.header('webhook-id') ?? '')
  return c.body(null, 204)
})

async function slack(text: string): Promise<void> {
  const answer = await fetch(SLACK, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ text }) })
  if (!answer.ok) throw new Error(`Slack: HTTP ${answer.status}`)
}

async function mail(subject: string, id: string): Promise<void> {
  const headers = {
    accept: 'application/json',
    'content-type': 'application/json',
    'x-postmark-server-token': process.env.POSTMARK_TOKEN ?? '',
  }
  const letter = {
    From: 'pawl@example.com',
    To: 'on-call@example.com',
    Subject: subject,
    TextBody: subject,
    Metadata: { notification: id },
  }
  const answer = await fetch(`${POSTMARK}/email`, { method: 'POST', headers, body: JSON.stringify(letter) })
  if (!answer.ok) throw new Error(`Postmark: HTTP ${answer.status}`)
}
// #endregion
