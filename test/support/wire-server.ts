// Local HTTP servers in place of a provider's API. `wireServer` answers with the bytes that a test chooses, for what a fake cannot send.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A server of JSON requests. Each `answer` that fails ends its connection. */
export async function jsonServer(answer: (body: Record<string, unknown>, req: IncomingMessage, res: ServerResponse) => unknown) {
  const read = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    let text = ''
    for await (const chunk of req) text += chunk
    await answer(JSON.parse(text), req, res)
  }
  const server = createServer((req, res) => void read(req, res).catch(() => res.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

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
  const server = await jsonServer((body, req, res) => {
    received.push({ path: req.url ?? '', headers: req.headers, body })
    answers.shift()?.(res)
  })
  return {
    ...server,
    received,
    answer: (...given: WireAnswer[]) => answers.push(...given),
    reset() {
      received.length = 0
      answers.length = 0
    },
  }
}

/** A server of that kind. */
export type WireServer = Awaited<ReturnType<typeof wireServer>>
