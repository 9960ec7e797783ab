// An HTTP server that answers with the bytes that a test chooses, for what a fake of a provider's API cannot send.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What it received. */
export interface Received {
  path: string
  headers: IncomingHttpHeaders
  body: Record<string, unknown>
}

export type WireAnswer = (res: ServerResponse) => void

/** A server that sends its answers in order, one per request, and keeps what it received. A request without an answer waits. */
export async function wireServer() {
  const received: Received[] = []
  const answers: WireAnswer[] = []
  const take = async (req: IncomingMessage, res: ServerResponse) => {
    let text = ''
    for await (const chunk of req) text += chunk
    received.push({ path: req.url ?? '', headers: req.headers, body: JSON.parse(text) })
    answers.shift()?.(res)
  }
  const server = createServer((req, res) => void take(req, res))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    received,
    answer: (...given: WireAnswer[]) => answers.push(...given),
    reset() {
      received.length = 0
      answers.length = 0
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A server of that kind. */
export type WireServer = Awaited<ReturnType<typeof wireServer>>
