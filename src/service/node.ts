// The handler for servers that have Node's requests: Express, Fastify, `node:http`.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'

/** What Node's servers call with a request. */
export type NodeListener = (request: IncomingMessage, response: ServerResponse) => void

/** Options of `nodeListener`. */
export interface NodeListenerOptions {
  /** A stream's connection is destroyed when it has taken nothing for so long, in milliseconds. Default 90,000. */
  stalledAfterMs?: number
  /** Called with each request before it is answered. Default: none. */
  onRequest?: (request: Request, incoming: IncomingMessage) => void
}

/**
 * The handler as a listener of `node:http`, and of frameworks that have its requests. It reads the body itself: mount it before a body
 * parser.
 */
export function nodeListener(handler: (request: Request) => Promise<Response>, options: NodeListenerOptions = {}): NodeListener {
  const { stalledAfterMs = 90_000, onRequest } = options
  return getRequestListener(
    async (request, { incoming, outgoing }) => {
      onRequest?.(request, incoming as IncomingMessage)
      const response = await handler(request)
      if (response.headers.get('content-type') === 'text/event-stream') endStalled(outgoing as ServerResponse, stalledAfterMs)
      return response
    },
    // The globals of the process are the application's.
    { overrideGlobalObjects: false },
  ) as NodeListener
}

/** A stream says something every few seconds: a connection that takes nothing for long has a client that reads nothing. */
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
