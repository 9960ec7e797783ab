// An OAuth 2.1 authorization server on the loopback interface, with discovery, registration and PKCE, and an MCP server that it protects.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type ServerType, serve } from '@hono/node-server'
import type { OAuthClientProvider } from '@modelcontextprotocol/client'
import { DemoInMemoryAuthProvider } from '@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js'
import { mcpAuthRouter } from '@modelcontextprotocol/sdk/server/auth/router.js'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import express from 'express'
import { z } from 'zod'

type Authorize = DemoInMemoryAuthProvider['authorize']

/** A server that knows which user has signed in: the one whom the browser names. */
class UserProvider extends DemoInMemoryAuthProvider {
  readonly #users = new Map<string, string>()
  readonly userOf = new Map<string, string>()

  override async authorize(...[client, params, response]: Parameters<Authorize>): Promise<void> {
    const user = String(response.req?.query.user ?? 'nobody')
    const redirect = response.redirect.bind(response) as (url: string) => void
    response.redirect = ((url: string) => {
      this.#users.set(new URL(url).searchParams.get('code') ?? '', user)
      redirect(url)
    }) as typeof response.redirect
    await super.authorize(client, params, response)
  }

  override async exchangeAuthorizationCode(
    ...args: Parameters<DemoInMemoryAuthProvider['exchangeAuthorizationCode']>
  ): ReturnType<DemoInMemoryAuthProvider['exchangeAuthorizationCode']> {
    const tokens = await super.exchangeAuthorizationCode(...args)
    this.userOf.set(tokens.access_token, this.#users.get(args[1]) ?? 'nobody')
    return tokens
  }
}

/** What the MCP SDK keeps for one user, as an application would store it. */
export type UserStore = OAuthClientProvider & { redirectedTo: string[] }

/** A user's store. `onToken`: called with each access token. */
export function userStore(user: string, redirectUrl: string, onToken: (token: string) => void): UserStore {
  let client: unknown
  let verifier = ''
  let saved: unknown
  let discovered: unknown
  const redirectedTo: string[] = []
  return {
    redirectedTo,
    redirectUrl,
    clientMetadata: { client_name: 'clerk', redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none' },
    state: () => `state-of-${user}`,
    clientInformation: () => client as never,
    saveClientInformation: (information) => void (client = information),
    tokens: () => saved as never,
    saveTokens(given) {
      saved = given
      onToken(given.access_token)
    },
    redirectToAuthorization: (url) => void redirectedTo.push(String(url)),
    saveCodeVerifier: (code) => void (verifier = code),
    codeVerifier: () => verifier,
    saveDiscoveryState: (state) => void (discovered = state),
    discoveryState: () => discovered as never,
  }
}

/** Both servers. */
export interface ProtectedServer {
  url: string
  /** What `whoami` was called by, in order. */
  callers: string[]
  /** The tokens so far, by user. */
  tokens(): ReadonlyMap<string, string>
  /** No longer accepts the user's tokens. */
  revoke(user: string): void
  close(): Promise<void>
}

/** Starts both. `protectsAll`: no request is answered without a token, and `boss` has a tool more; otherwise, only calls need one. */
export async function startProtected({ protectsAll = false } = {}): Promise<ProtectedServer> {
  const provider = new UserProvider()
  const app = express()
  const auth = await new Promise<Server>((resolve) => {
    const started = createServer(app).listen(0, '127.0.0.1', () => resolve(started))
  })
  const issuer = new URL(`http://127.0.0.1:${(auth.address() as AddressInfo).port}/`)
  app.use(mcpAuthRouter({ provider, issuerUrl: issuer, scopesSupported: ['mcp:tools'] }))

  const callers: string[] = []
  const caller = new AsyncLocalStorage<string>()
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'private', version: '1' })
    server.registerTool('whoami', { description: 'Says who is signed in.', inputSchema: z.object({}) }, () => {
      const user = caller.getStore() ?? 'nobody'
      callers.push(user)
      return { content: [{ type: 'text', text: user }] }
    })
    if (protectsAll && caller.getStore() === 'boss')
      server.registerTool('dismiss', { description: 'Dismisses somebody.', inputSchema: z.object({}) }, () => ({ content: [] }))
    return server
  })
  const resource = await new Promise<ServerType>((resolve) => {
    const started: ServerType = serve({ fetch: answer, hostname: '127.0.0.1', port: 0 }, () => resolve(started))
  })
  const base = `http://127.0.0.1:${(resource.address() as AddressInfo).port}`

  async function answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/.well-known/oauth-protected-resource'))
      return Response.json({ resource: `${base}/mcp`, authorization_servers: [issuer.href], scopes_supported: ['mcp:tools'] })
    if (pathname !== '/mcp') return new Response(null, { status: 404 })
    const text = await request.clone().text()
    const token = /^Bearer (.+)$/.exec(request.headers.get('authorization') ?? '')?.[1] ?? ''
    const user = await provider.verifyAccessToken(token).then(
      () => provider.userOf.get(token),
      () => undefined,
    )
    if ((protectsAll || text.includes('"tools/call"')) && user === undefined) {
      const challenge = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`
      return new Response(null, { status: 401, headers: { 'www-authenticate': challenge } })
    }
    return caller.run(user ?? 'nobody', () => handler.fetch(request))
  }

  return {
    url: `${base}/mcp`,
    callers,
    tokens: () => provider.userOf,
    revoke(user) {
      for (const [token, owner] of provider.userOf) {
        if (owner !== user) continue
        provider.userOf.delete(token)
      }
    },
    async close() {
      await handler.close()
      await Promise.all(
        [resource, auth].map(
          (server) =>
            new Promise((resolve) => {
              server.close(resolve)
              if ('closeAllConnections' in server) server.closeAllConnections()
            }),
        ),
      )
    },
  }
}
