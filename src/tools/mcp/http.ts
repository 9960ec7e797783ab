// Requests to an MCP server over HTTP: credentials go only to its own origin, and answers have a limit.
import type { McpIdentity } from './auth.ts'
import { AnswerTooLarge, RedirectRefused } from './errors.ts'
import type { McpTransport } from './options.ts'

type HttpTransport = Extract<McpTransport, { type: 'http' }>

const REDIRECTS = [301, 302, 303, 307, 308]
/** Those that keep method and body. */
const KEEPING = [307, 308]
const MAX_REDIRECTS = 5

/**
 * `fetch` for a server. Redirects are followed only within an origin: elsewhere, the request's body and its headers would go to a server that
 * nobody named. `headers`, and those of the user, go only to the server's own origin, because OAuth servers are asked with the same function.
 */
export function guardedFetch(
  { url, headers = {} }: HttpTransport,
  { headers: ofUser = {} }: Pick<McpIdentity, 'headers'>,
  maxBytes: number,
): (to: string | URL, init?: RequestInit) => Promise<Response> {
  const { origin } = new URL(url)
  return async (to, init = {}) => {
    let target = new URL(to)
    for (let redirects = 0; ; redirects++) {
      const all = new Headers(init.headers)
      if (target.origin === origin) {
        const own = typeof headers === 'function' ? await headers() : headers
        for (const [name, value] of Object.entries({ ...own, ...ofUser })) all.set(name, value)
      }
      const response = await fetch(target, { ...init, headers: all, redirect: 'manual' })
      const location = REDIRECTS.includes(response.status) ? response.headers.get('location') : null
      if (location === null) return init.method === 'POST' ? limited(response, maxBytes) : response
      await response.body?.cancel()
      target = nextTarget(target, location, { status: response.status, method: init.method ?? 'GET', redirects })
    }
  }
}

/** @throws RedirectRefused. */
function nextTarget(
  from: URL,
  location: string,
  { status, method, redirects }: { status: number; method: string; redirects: number },
): URL {
  const target = new URL(location, from)
  if (target.origin !== from.origin)
    throw new RedirectRefused(
      `it redirects to ${target.origin}, where pawl sends neither requests nor credentials. If that is its new address, set transport.url.`,
    )
  if (redirects >= MAX_REDIRECTS || (method !== 'GET' && !KEEPING.includes(status)))
    throw new RedirectRefused(`it redirects to ${target.pathname} with status ${status}. If that is its new address, set transport.url.`)
  return target
}

/** The response, whose body fails beyond the limit. */
function limited(response: Response, maxBytes: number): Response {
  if (!response.body) return response
  let bytes = 0
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength
        if (bytes > maxBytes) controller.error(new AnswerTooLarge(maxBytes))
        else controller.enqueue(chunk)
      },
    }),
  )
  const { status, statusText, headers } = response
  return new Response(counted, { status, statusText, headers })
}
