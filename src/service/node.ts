// The handler for servers that use Node's requests: Express, Fastify, `node:http`.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { checkOptions, duration, fn, options } from '../options/check.ts'
import { InvalidOptionError } from '../options/errors.ts'
import type { Duration } from '../session/duration.ts'
import { bodyConsumed } from './input.ts'

/** Options of `nodeListener`. */
export interface NodeListenerOptions {
  /** A stream's connection is destroyed when its client has read nothing for this long. At most 24 days. Default `'90s'`. */
  stalledAfter?: Duration
  /** Called with each request before it is answered. Default: none. */
  onRequest?: (request: Request, incoming: IncomingMessage) => void
}

type OnRequest = NonNullable<NodeListenerOptions['onRequest']>

const DEFAULT_STALLED_MS = 90_000
const OPTIONS = options({ stalledAfter: duration({ example: '90s' }).optional(), onRequest: fn<OnRequest>().optional() })

/**
 * Returns the handler as a listener for `node:http` and for frameworks that use its requests. It reads the body itself, so mount it before
 * a body parser; requests whose body was read before are refused with 500 `body_consumed`.
 * @throws InvalidOptionError `invalid_option`.
 */
export function nodeListener(
  handler: (request: Request) => Promise<Response>,
  given: NodeListenerOptions = {},
): (request: IncomingMessage, response: ServerResponse) => void {
  if (typeof handler !== 'function')
    throw new InvalidOptionError(
      'The first argument of nodeListener() must be a handler. Pass the result of createHandler(), or another function.',
    )
  const { stalledAfter: stalledAfterMs = DEFAULT_STALLED_MS, onRequest } = checkOptions(OPTIONS, given)
  return getRequestListener(
    async (request, { incoming, outgoing }) => {
      onRequest?.(request, incoming as IncomingMessage)
      const response = await handler(isConsumed(incoming as IncomingMessage) ? withoutBody(request) : request)
      if (response.headers.get('content-type') === 'text/event-stream') endStalled(outgoing as ServerResponse, stalledAfterMs)
      return response
    },
    // The globals of the process belong to the application.
    { overrideGlobalObjects: false },
  ) as ReturnType<typeof nodeListener>
}

/** Whether other code has read the body, or a part of it, without keeping the original. */
function isConsumed(incoming: IncomingMessage & { rawBody?: unknown }): boolean {
  return incoming.readableDidRead && !(incoming.rawBody instanceof Buffer)
}

/** The request with a body that cannot be read: reading it fails with the reason. */
function withoutBody(request: Request): Request {
  const { method, headers, signal } = request
  if (method === 'GET' || method === 'HEAD') return request
  const body = new ReadableStream({ pull: (to) => to.error(bodyConsumed()) }, { highWaterMark: 0 })
  return new Request(request.url, { method, headers, body, signal, duplex: 'half' } as RequestInit)
}

/** A stream sends data every few seconds, so a connection that accepts no data for a long time has a client that does not read. */
function endStalled(outgoing: ServerResponse, stalledAfterMs: number): void {
  const { socket } = outgoing
  if (!socket) return
  const destroy = () => socket.destroy()
  socket.setTimeout(stalledAfterMs, destroy)
  outgoing.once('close', () => {
    socket.setTimeout(0)
    socket.off('timeout', destroy)
  })
}
