// `pawl serve`: the handler in a Node server, with CORS, rate limits and a graceful shutdown.
import { createServer, maxHeaderSize, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { Hono } from 'hono'
import { cors } from 'hono/cors'
import { inTime } from '../waiting/in-time.ts'
import { numberText } from '../session/number-text.ts'
import { ServiceError } from './errors.ts'
import { addLogin, keyInCookie } from './console-login.ts'
import { createHandler, type HandlerOptions } from './handler.ts'
import { keyAuthorize, ownKeyAuthorize } from './keys.ts'
import { nodeListener } from './node.ts'
import { PROBLEM_TYPE, problemOf } from './problem.ts'
import { rateLimits } from './rate-limits.ts'

/** Options of a server for clients with API keys. */
export interface ServerOptions extends Omit<HandlerOptions, 'authorize' | 'basePath'> {
  host: string
  /** 0 for any free port. */
  port: number
  /** Origins whose pages may send requests: `https://app.example`, or `*` for any origin. */
  origins: readonly string[]
  /** Requests per minute for each identity in its tenant; 0 for no limit. */
  perMinute: number
  /** The only key that is accepted; its holder may do everything. Default: the deployment's API keys. */
  ownKey?: string
  /** How long the server keeps accepting connections while it drains, so that load balancers can react, in milliseconds. */
  drainDelayMs: number
}

/** A server that is listening. */
export interface RunningServer {
  url: string
  /** Ends the streams, fails the readiness probe, and stops once the requests in progress are answered or `hurry` resolves. */
  stop(hurry: Promise<void>): Promise<void>
}

const DRAIN_MS = 30_000

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { host, port, origins, perMinute, drainDelayMs, ownKey, ...rest } = options
  const addresses = new WeakMap<Request, string>()
  const limits = rateLimits(perMinute, (request) => addresses.get(request) ?? '')
  const rules = { isSuspect: limits.isSuspect, ...(rest.console && { otherKey: keyInCookie }) }
  const authorize = ownKey === undefined ? keyAuthorize(rest.pawl, rules) : ownKeyAuthorize(ownKey, keyInCookie)
  const handler = createHandler({ ...rest, authorize: limits.limited(authorize) })
  const app = new Hono()
  if (origins.length > 0) app.use(crossOrigin(origins))
  if (rest.console)
    addLogin(app, async (key, request) => {
      const asked = new Request(new URL('/v1/caller', request.url), { headers: { authorization: `Bearer ${key}` } })
      addresses.set(asked, addresses.get(request) ?? '')
      const answer = await handler(asked)
      return answer.ok ? undefined : answer
    })
  app.all('*', ({ req }) => handler(req.raw))
  const server = createServer(
    nodeListener(async (request) => app.fetch(request), {
      onRequest: (request, { socket }) => addresses.set(request, socket.remoteAddress ?? ''),
    }),
  )
  server.on('clientError', answerUnreadable)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(notListening(error, `${host}:${port}`)))
    server.listen(port, host, resolve)
  })
  const { port: listening } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}`,
    async stop(hurry) {
      handler.drain()
      await inTime(hurry, drainDelayMs)
      await closed(server, hurry)
    },
  }
}

/** Why the server cannot listen there, if a person can change that. */
function notListening(error: NodeJS.ErrnoException, address: string): Error {
  const why = NOT_LISTENING[error.code ?? '']
  return why === undefined ? error : new ServiceError('cannot_listen', 500, `${address} ${why}`, { cause: error })
}

const NOT_LISTENING: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use by another process. End that one, or choose another port with --port.',
  EACCES: 'may not be used by this user. Choose a port above 1023 with --port.',
  EADDRNOTAVAIL: 'is not an address of this machine. Choose another one with --host.',
  ENOTFOUND: 'is not the name of a machine. Choose another address with --host.',
}

/** Answers a request that Node cannot parse; the handler never sees it. */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const problem = problemOf(UNREADABLE[error.code ?? ''] ?? NO_HTTP)
  const body = JSON.stringify(problem)
  const head = `HTTP/1.1 ${problem.status} ${problem.title}\r\nContent-Type: ${PROBLEM_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}`
  socket.end(`${head}\r\nConnection: close\r\n\r\n${body}`)
}

const NO_HTTP = new ServiceError(
  'invalid_http',
  400,
  'The request could not be parsed as HTTP. Check the client, or a proxy between it and pawl.',
)

/** Refusals by Node's error code. */
const UNREADABLE: Readonly<Record<string, ServiceError>> = {
  HPE_HEADER_OVERFLOW: new ServiceError(
    'headers_too_large',
    431,
    `The URL and headers exceed ${numberText(maxHeaderSize)} bytes. Shorten them, or send long values in the body.`,
  ),
  ERR_HTTP_REQUEST_TIMEOUT: new ServiceError('request_timeout', 408, 'The request did not arrive in time. Send it again.'),
}

async function closed(server: Server, hurry: Promise<void>): Promise<void> {
  const done = new Promise<void>((resolve) => server.close(() => resolve()))
  await inTime(Promise.race([done, hurry]), DRAIN_MS)
  server.closeAllConnections()
}

function crossOrigin(origins: readonly string[]) {
  return cors({
    origin: origins.includes('*') ? '*' : [...origins],
    allowMethods: ['GET', 'POST'],
    allowHeaders: ['authorization', 'content-type', 'idempotency-key', 'last-event-id', 'x-api-key'],
    exposeHeaders: ['location', 'retry-after'],
    maxAge: 600,
  })
}
