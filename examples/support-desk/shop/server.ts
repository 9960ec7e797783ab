// The shop: an external system that runs in a separate process, speaks HTTP, and has its own Postgres database.
// SHOP_DATABASE_URL says which, SHOP_SEED seeds its latency. It prints {"event":"ready","port"} and ends when its stdin does.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'pg'
import type { KeyedAnswer } from './keys.ts'
import { oncePerKey } from './keys.ts'
import { createLedger } from './ledger.ts'
import { ORDER_CHANGES } from './orders.ts'
import type { Waits } from './pace.ts'
import { createPace } from './pace.ts'
import { createProgress } from './progress.ts'
import { READS } from './reads.ts'
import type { Route, ShopRequest } from './route.ts'
import { Refusal } from './route.ts'
import { SENDINGS } from './sendings.ts'

const ROUTES: readonly Route[] = [...READS, ...ORDER_CHANGES, ...SENDINGS]

const pool = new Pool({ connectionString: process.env.SHOP_DATABASE_URL, max: 8 })
// An idle connection that breaks is replaced by the next query; without a listener it would end the process
pool.on('error', (error) => console.error(`shop: a database connection broke: ${error.message}`))
const ledger = createLedger(pool)
const pace = createPace(Number(process.env.SHOP_SEED ?? 0))
const progress = createProgress()
/** Requests that write and are still being worked on, by what they are about. */
const underWay = new Map<string, Set<Promise<unknown>>>()
let received = 0

interface Received {
  id: number
  method: string
  url: URL
  key: string | null
  requestId: string | null
  caller: string | null
  body: Record<string, unknown>
}

async function bodyOf(req: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  const raw = Buffer.concat(chunks).toString('utf8')
  try {
    return raw === '' ? {} : (JSON.parse(raw) as Record<string, unknown>)
  } catch {
    throw new Refusal(400, 'bad_request', 'the body is not JSON')
  }
}

async function receive(req: IncomingMessage): Promise<Received> {
  const body = await bodyOf(req)
  const header = (name: string): string | null => {
    const value = req.headers[name]
    return typeof value === 'string' ? value : null
  }
  return {
    id: ++received,
    method: req.method ?? 'GET',
    url: new URL(req.url ?? '/', 'http://shop'),
    key: header('idempotency-key'),
    requestId: header('x-request-id'),
    caller: header('user-agent'),
    body,
  }
}

function find(request: Received): { route: Route; asked: ShopRequest } {
  for (const route of ROUTES) {
    const match = route.method === request.method ? route.pattern.exec(request.url.pathname) : null
    if (match)
      return { route, asked: { params: match.slice(1).map(decodeURIComponent), query: request.url.searchParams, body: request.body } }
  }
  throw new Refusal(404, 'no_such_route', `${request.method} ${request.url.pathname} is nothing that this shop does`)
}

/** The effect and its key's record in one transaction; lookups wait for requests in progress about the same thing. */
async function carryOut(request: Received, waits: Waits): Promise<KeyedAnswer> {
  const { route, asked } = find(request)
  const subject = route.subject?.(asked)
  if (route.method === 'GET') {
    await waits.before()
    await Promise.allSettled([...((subject && underWay.get(subject)) || [])])
    return route.handle(pool, asked)
  }
  const work = waits.before().then(() => inTransaction(route, asked, request))
  if (subject === undefined) return work
  const others = underWay.get(subject) ?? new Set()
  underWay.set(subject, others.add(work))
  try {
    return await work
  } finally {
    others.delete(work)
    if (others.size === 0) underWay.delete(subject)
  }
}

async function inTransaction(route: Route, asked: ShopRequest, request: Received): Promise<KeyedAnswer> {
  const db = await pool.connect()
  try {
    await db.query('begin')
    const handle = () => route.handle(db, asked)
    const text = `${request.method} ${request.url.pathname} ${JSON.stringify(request.body)}`
    const answer = await (route.keys === 'honoured' && request.key !== null ? oncePerKey(db, request.key, text, handle) : handle())
    await db.query('commit')
    db.release()
    return answer
  } catch (error) {
    const broken = await db.query('rollback').then(
      () => false,
      () => true,
    )
    db.release(broken)
    throw error
  }
}

function refusalOf(error: unknown): { outcome: 'refused' | 'failed'; status: number; body: object } {
  if (error instanceof Refusal) return { outcome: 'refused', status: error.status, body: { code: error.code, message: error.message } }
  console.error('shop:', error)
  return {
    outcome: 'failed',
    status: 500,
    body: { code: 'internal_error', message: error instanceof Error ? error.message : String(error) },
  }
}

async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const request = await receive(req)
  const { id, method, url, key, requestId, caller, body } = request
  const reference = typeof body.reference === 'string' ? body.reference : url.searchParams.get('reference')
  const place = { request: id, method, path: url.pathname, requestId, caller }
  progress.tell({ at: 'received', ...place })
  const waits = pace.next(requestId)
  // The ledger's row is written in parallel with the work: a look-up must find the request in progress from its first moment
  const entered = ledger.received({
    id,
    method,
    path: url.pathname + url.search,
    key,
    reference,
    requestId,
    caller,
    body: method === 'GET' ? null : body,
  })
  const result = await carryOut(request, waits).then(
    (answer) => ({ outcome: answer.outcome, status: 200, body: answer.body }),
    (error: unknown) => refusalOf(error),
  )
  await entered
  await ledger.done(id, result.outcome, result.status)
  progress.tell({ at: 'done', outcome: result.outcome, ...place })
  await waits.after()
  const heard = req.socket.destroyed || res.destroyed ? 'unheard' : 'heard'
  res.writeHead(result.status, { 'content-type': 'application/json' }).end(JSON.stringify(result.body))
  progress.tell({ at: 'answered', heard, ...place })
  await ledger.answered(id, heard)
}

/** Routes for the demo only: the stream of progress, and the hold. */
async function serveDemo(req: IncomingMessage, res: ServerResponse): Promise<void> {
  if (req.url === '/-/progress') return progress.follow(res)
  if (req.url === '/-/hold') pace.hold((await bodyOf(req)).except as string[])
  else if (req.url === '/-/release') pace.release()
  else throw new Refusal(404, 'no_such_route', `${req.url} is nothing that this shop does`)
  res.writeHead(204).end()
}

const server = createServer((req, res) => {
  const served = req.url?.startsWith('/-/') ? serveDemo(req, res) : serve(req, res)
  served.catch((error: unknown) => {
    const { status, body } = refusalOf(error)
    if (!res.headersSent) res.writeHead(status, { 'content-type': 'application/json' })
    res.end(JSON.stringify(body))
  })
})
// Longer than any client keeps a connection: closing one just as a request comes in would lose the request
server.keepAliveTimeout = 120_000
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ event: 'ready', port: (server.address() as AddressInfo).port })}\n`)
})

// The process that started the shop holds its stdin: when that process ends, for whatever reason, the shop ends too
process.stdin.resume()
// A terminal's Ctrl-C reaches every process at once, but the process that started the shop may still need it
process.on('SIGINT', () => {})
process.stdin.on('end', () => {
  pace.release()
  server.close()
  server.closeAllConnections()
  void pool.end().finally(() => process.exit(0))
})
