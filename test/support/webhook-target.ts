// A server that receives webhooks: it verifies each request with the reference implementation of Standard Webhooks, and answers as it is told.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { FOUND_WITHIN_MS, until } from './until.ts'

/** A request that the target has received. */
export interface ReceivedHook {
  /** The `webhook-id`. */
  id: string
  type: string
  timestamp: string
  // oxlint-disable-next-line typescript/no-explicit-any -- whatever was sent
  data: any
  /** The status that was answered. */
  status: number
}

export interface WebhookTarget {
  readonly url: string
  /** What requests must be signed with. */
  secret: string
  /** Decides on the answer's status; by default 204. */
  answer: (received: Omit<ReceivedHook, 'status'>) => number | Promise<number>
  readonly received: ReceivedHook[]
  /** Those of a session, in order. */
  of(sessionId: string): ReceivedHook[]
  /** Waits until so many notifications of a session have been accepted, however often each was sent. */
  accepted(sessionId: string, count: number): Promise<ReceivedHook[]>
  stop(): Promise<void>
}

export async function webhookTarget(): Promise<WebhookTarget> {
  const received: ReceivedHook[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (part: string) => (body += part))
    request.on('end', async () => {
      const headers = request.headers as Record<string, string>
      const { type, timestamp, data } = new Webhook(target.secret).verify(body, headers) as ReceivedHook
      const hook = { id: headers['webhook-id'] ?? '', type, timestamp, data }
      const status = await target.answer(hook)
      received.push({ ...hook, status })
      response.writeHead(status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const of = (sessionId: string): ReceivedHook[] => received.filter(({ data }) => data.sessionId === sessionId)
  const target: WebhookTarget = {
    url: `http://127.0.0.1:${port}/hooks`,
    secret: '',
    answer: () => 204,
    received,
    of,
    accepted: (sessionId, count) =>
      until(
        `${count} notifications of ${sessionId} are accepted`,
        () => {
          const found = of(sessionId).filter(({ status }) => status < 300)
          return new Set(found.map(({ id }) => id)).size >= count && found
        },
        // A dead sender's lease lasts 15 s.
        FOUND_WITHIN_MS,
      ),
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  return target
}
