// A provider outside of the workers that bills by the byte: a token for each byte of text that it receives, and for each byte of its answer
// that it has written. It keeps writing only while its caller reads, like a provider that writes more slowly than its callers read.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

/** US dollars per million tokens. */
export const PRICE = { input: 1, output: 100 }
/** Tokens of one piece, how many pieces may be unread, and the time between two: ten times as fast as real providers. */
const PIECE = 20
const UNREAD = 2
const EVERY_MS = 10

/** A piece that is about to be sent. */
export interface Piece {
  session: string
  /** Calls of that session so far, this one included. */
  call: number
  /** Tokens of the answer that were sent before. */
  sent: number
  /** The process that called. */
  pid: number
}

/** What one session was billed. */
export interface Bill {
  calls: number
  tokens: number
  usd: number
}

/** A running provider. */
export interface MeteredProvider {
  url: string
  /** Called before each piece. */
  beforePiece: (piece: Piece) => Promise<void> | void
  bill(session: string): Bill
  close(): Promise<void>
}

/** A request of the model in `fixtures/spenders.ts`. */
interface MeteredRequest {
  session: string
  pid: number
  system: string
  messages: unknown
  tools: unknown
  maxTokens: number
  /** Tokens of the answer. */
  output: number
}

/** Starts the provider on a free port of the loopback. */
export async function meteredProvider(): Promise<MeteredProvider> {
  const bills = new Map<string, Bill>()

  function charge(session: string, usage: { input: number; output: number }, calls = 0): void {
    const { calls: before, tokens, usd } = bills.get(session) ?? { calls: 0, tokens: 0, usd: 0 }
    const cost = (usage.input * PRICE.input + usage.output * PRICE.output) / 1_000_000
    bills.set(session, { calls: before + calls, tokens: tokens + usage.input + usage.output, usd: usd + cost })
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const lines = createInterface({ input: request })[Symbol.asyncIterator]()
    const asked = JSON.parse((await lines.next()).value as string) as MeteredRequest
    const { session, pid } = asked
    const input = textBytes([asked.system, asked.messages, asked.tools])
    charge(session, { input, output: 0 }, 1)
    const call = bills.get(session)?.calls ?? 0
    const output = Math.min(asked.output, asked.maxTokens)
    let unread = 0
    for (let sent = 0; sent < output; sent += PIECE) {
      await provider.beforePiece({ session, call, sent, pid })
      if (response.destroyed) return
      const tokens = Math.min(PIECE, output - sent)
      response.write(`${JSON.stringify({ text: 'x'.repeat(tokens) })}\n`)
      charge(session, { input: 0, output: tokens })
      if (++unread >= UNREAD) {
        if ((await lines.next()).done) return
        unread -= 1
      }
      await sleep(EVERY_MS)
    }
    response.end(`${JSON.stringify({ usage: { input, output } })}\n`)
  }

  // The caller may have been killed: what was sent is billed.
  const server = createServer((request, response) => {
    request.on('error', () => undefined)
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const provider: MeteredProvider = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    beforePiece: () => undefined,
    bill: (session) => bills.get(session) ?? { calls: 0, tokens: 0, usd: 0 },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return provider
}

/** Bytes of all strings in a value: everything around them costs nothing. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce<number>((sum, one) => sum + textBytes(one), 0)
}
