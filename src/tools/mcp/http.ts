// Requests to an MCP server over HTTP: credentials go only to its own origin, and answers have a limit.
import { AsyncLocalStorage } from 'node:async_hooks'
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
    const request = requests.getStore()
    if (request?.isOver && new Headers(init.headers).has('last-event-id')) throw new Error('Nobody waits for the rest of this stream.')
    let target = new URL(to)
    for (let redirects = 0; ; redirects++) {
      const all = new Headers(init.headers)
      if (target.origin === origin) {
        const own = typeof headers === 'function' ? await headers() : headers
        for (const [name, value] of Object.entries({ ...own, ...ofUser })) all.set(name, value)
      }
      const response = await fetch(target, { ...init, headers: all, redirect: 'manual' })
      const location = REDIRECTS.includes(response.status) ? response.headers.get('location') : null
      if (location === null) return limited(response, maxBytes, request)
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

interface LimitedRequest {
  tooLarge: AbortController
  /** Its caller has the answer, or an error. */
  isOver: boolean
}

/** The request whose answer is read. */
const requests = new AsyncLocalStorage<LimitedRequest>()

/**
 * Makes a request, which fails as soon as its answer is too large. The SDK reports a broken stream only as one that has ended, and asks the
 * server to send it again if it can, a second later and even if the request has failed meanwhile: `guardedFetch` then refuses.
 * @throws AnswerTooLarge, or what `work` throws.
 */
export async function withLimit<T>(signal: AbortSignal, work: (limited: AbortSignal) => Promise<T>): Promise<T> {
  const request: LimitedRequest = { tooLarge: new AbortController(), isOver: false }
  const { signal: limit } = request.tooLarge
  try {
    return await requests.run(request, () => work(AbortSignal.any([signal, limit])))
  } catch (error) {
    throw limit.aborted ? limit.reason : error
  } finally {
    request.isOver = true
  }
}

/** The response, whose body fails beyond the limit. A stream may go on for ever, so the limit is that of each of its events. */
function limited(response: Response, maxBytes: number, request: LimitedRequest | undefined): Response {
  if (!response.body) return response
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  let bytes = 0
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const begins = isStream ? beginOfLastEvent(chunk) : 0
        bytes = begins > 0 ? chunk.byteLength - begins : bytes + chunk.byteLength
        if (bytes <= maxBytes) return controller.enqueue(chunk)
        const error = new AnswerTooLarge(maxBytes)
        request?.tooLarge.abort(error)
        controller.error(error)
      },
    }),
  )
  const { status, statusText, headers } = response
  return new Response(counted, { status, statusText, headers })
}

/** Where the last event of the chunk begins: after an empty line. 0 if no line is empty. */
function beginOfLastEvent(chunk: Uint8Array): number {
  const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  const after = (empty: string): number => (buffer.includes(empty) ? buffer.lastIndexOf(empty) + empty.length : 0)
  return Math.max(after('\n\n'), after('\r\n\r\n'))
}
