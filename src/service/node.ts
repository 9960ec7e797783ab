// The handler for servers that use Node's requests: Express, Fastify, `node:http`.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'

/** A request listener of a Node server. */
export type NodeListener = (request: IncomingMessage, response: ServerResponse) => void

/** Options of `nodeListener`. */
export interface NodeListenerOptions {
  /** A stream's connection is destroyed when its client has read nothing for this long, in milliseconds. Default 90,000. */
  stalledAfterMs?: number
  /** Called with each request before it is answered. Default: none. */
  onRequest?: (request: Request, incoming: IncomingMessage) => void
}

/**
 * Returns the handler as a listener for `node:http` and for frameworks that use its requests. It reads the body itself, so mount it before
 * a body parser.
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
    // The globals of the process belong to the application.
    { overrideGlobalObjects: false },
  ) as NodeListener
}

/** A stream sends data every few seconds, so a connection that accepts nothing for long has a client that does not read. */
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
