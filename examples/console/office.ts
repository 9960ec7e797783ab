// What the tools of the showcase work with: a server that remembers by key what it did, and kills some of the processes that call it.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request of a tool. */
interface Order {
  pid: number
  order?: string
  key?: string
  attempt?: number
  warehouse?: string
  [name: string]: unknown
}

export interface Office {
  url: string
  /** How many of its callers it has killed. */
  killed(): number
  /** Kills the next caller that asks for this, such as `mails W-1051`, before or after it is done. */
  killNext(what: string, when: 'before' | 'after'): void
  /** How often it did this, such as `refunds W-1042`, under all keys. */
  times(what: string): number
  stop(): Promise<void>
}

/** Which callers are killed, each once, and whether what they asked for is done before. */
const KILLS: Readonly<Record<string, 'before' | 'after'>> = {
  'refunds W-1042': 'after',
  'mails W-1051': 'after',
  'orders W-1063': 'before',
  'parcels W-1015': 'before',
  'refunds W-1043': 'before',
}

/** Nobody but the bank can say whether these refunds were paid. */
const UNLISTED = new Set(['W-1043'])

export async function startOffice(): Promise<Office> {
  const done = new Map<string, object>()
  const counts = new Map<string, number>()
  const left = new Map(Object.entries(KILLS))
  let kills = 0
  const carryOut = (what: string, order: Order): [status: number, answer: object] => {
    if (what === 'refunds/find') return [200, { found: done.get(order.key ?? '') ?? null, isListed: !UNLISTED.has(order.order ?? '') }]
    if (what === 'stock' && order.warehouse === 'overseas' && (order.attempt ?? 1) < 3)
      return [503, { code: 'warehouse_closed', message: 'The warehouse overseas does not answer before 8 o’clock.' }]
    if (what === 'orders' && !/^W-\d+$/.test(order.order ?? ''))
      return [404, { code: 'no_such_order', message: 'The order does not exist.' }]
    const before = order.key === undefined ? undefined : done.get(order.key)
    if (before) return [200, before]
    const answer = answerTo(what, order)
    if (order.key !== undefined) done.set(order.key, answer)
    const name = `${what} ${order.order}`
    counts.set(name, (counts.get(name) ?? 0) + 1)
    return [200, answer]
  }
  const server = createServer((request, response) => {
    void (async () => {
      const what = (request.url ?? '').slice(1)
      const order = JSON.parse(await textOf(request)) as Order
      const name = `${what} ${order.order}`
      const when = left.get(name)
      left.delete(name)
      const kill = (): void => {
        kills += 1
        process.kill(order.pid, 'SIGKILL')
      }
      if (when === 'before') return kill()
      const [status, answer] = carryOut(what, order)
      if (when === 'after') return kill()
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })().catch((error: unknown) => response.writeHead(400).end(String(error)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    killed: () => kills,
    killNext: (what, when) => void left.set(what, when),
    times: (what) => counts.get(what) ?? 0,
    stop: () => closed(server),
  }
}

function answerTo(what: string, { order = '', ...rest }: Order): object {
  switch (what) {
    case 'orders':
      return {
        order,
        customer: order === 'W-1042' || order === 'W-1043' ? 42 : 7,
        status: 'delivered',
        delivered: '2026-11-24',
        items: [order === 'W-1043' ? { name: 'Red chair', cents: 8_900 } : { name: 'Blue lamp', cents: 4_900 }],
      }
    case 'parcels':
      return { order, carrier: 'Northern Post', expected: '2026-12-03', daysLate: order === 'W-1051' ? 6 : 0 }
    case 'refunds':
      return { id: `R-${order.slice(2)}`, order, cents: rest.cents }
    case 'credits':
      return { customer: rest.customer, toCents: rest.toCents }
    case 'invoices':
      return { month: rest.month, invoices: 1_204, cents: 23_118_240 }
    case 'stock':
      return { warehouse: rest.warehouse, pieces: rest.warehouse === 'north' ? 8_411 : 3_020 }
    case 'prices':
      return {
        competitor: rest.competitor,
        prices: Array.from({ length: 40 }, (_, n) => ({ article: `A-${100 + n}`, cents: 1_900 + 37 * n })),
      }
    case 'flights':
      return { flight: 'TP 553', departs: '9:40', seats: rest.seats, cents: 61_200 }
    case 'rooms':
      return {
        hotels: [
          { name: 'Casa do Rio', cents: 158_000 },
          { name: 'Pensão Alfama', cents: 181_000 },
        ],
      }
    default:
      return { done: true }
  }
}

async function textOf(request: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString('utf8')
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}
