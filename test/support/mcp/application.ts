// A web application whose users sign in to an MCP server: it sends their browsers to the authorization server, and keeps their tokens.
import type { AddressInfo } from 'node:net'
import { type ServerType, serve } from '@hono/node-server'
import { auth } from '@modelcontextprotocol/client'
import { type Gate, gate } from '../until.ts'
import { type UserStore, userStore } from './authorization.ts'

/** An application that is running. */
export interface Application {
  url: string
  /** Holds the next request for a token until the gate is open. */
  holdNext(): Gate
  close(): Promise<void>
}

const pageOf = (text: string): Response => new Response(`<!doctype html><p>${text}</p>`, { headers: { 'content-type': 'text/html' } })

/**
 * Starts it: `/sign-in?user=` is where users sign in to the MCP server, and `/token?user=` what their workers ask. Users are named in the
 * address, because nobody else is here.
 */
export async function startApplication(serverUrl: string): Promise<Application> {
  const tokens = new Map<string, string>()
  const stores = new Map<string, UserStore>()
  let next: Gate | undefined
  const server = await new Promise<ServerType>((resolve) => {
    const started: ServerType = serve({ fetch: answer, hostname: '127.0.0.1', port: 0 }, () => resolve(started))
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    const user = searchParams.get('user') ?? ''
    switch (pathname) {
      case '/token': {
        const held = next
        next = undefined
        await held?.pass()
        return Response.json({ token: tokens.get(user) })
      }
      case '/sign-in': {
        const store = userStore(user, `${url}/callback`, (token) => void tokens.set(user, token))
        stores.set(`state-of-${user}`, store)
        await auth(store, { serverUrl })
        return new Response(null, { status: 302, headers: { location: `${store.redirectedTo.at(-1)}&user=${user}` } })
      }
      case '/callback': {
        const store = stores.get(searchParams.get('state') ?? '')
        const authorizationCode = searchParams.get('code')
        if (!store || authorizationCode === null) return new Response(null, { status: 400 })
        await auth(store, { serverUrl, authorizationCode })
        return pageOf('You are signed in.')
      }
      default:
        return new Response(null, { status: 404 })
    }
  }

  return {
    url,
    holdNext() {
      next = gate()
      return next
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}
