// The handler for servers that have Node's requests: Express, Fastify, `node:http`.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'

/** What Node's servers call with a request. */
export type NodeListener = (request: IncomingMessage, response: ServerResponse) => Promise<void>

/**
 * The handler as a listener of `node:http`, and of frameworks that have its requests. It reads the body itself: mount it before a body
 * parser. A response that a client does not read is destroyed with its connection once nothing was sent for `stalledAfter` milliseconds.
 */
export function nodeListener(handler: (request: Request) => Promise<Response>): NodeListener {
  // The globals of the process are the application's.
  return getRequestListener((request) => handler(request), { overrideGlobalObjects: false }) as NodeListener
}
