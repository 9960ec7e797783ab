// Signing in to the console of `pawl serve` with an API key, which the browser then keeps in a cookie that no script can read.
import type { Hono } from 'hono'
import { deleteCookie, setCookie } from 'hono/cookie'
import { ServiceError } from './errors.ts'
import { bodyOf } from './input.ts'
import { refusal } from './problem.ts'

/** Cookies do not belong to a port, but several servers may run on a developer's machine. */
const cookieOf = (headers: Headers): string => `pawl_console${/:(\d+)$/.exec(headers.get('host') ?? '')?.[1] ?? ''}`
const KEPT_S = 12 * 3_600
/** Anyone may send this request, so little of it is read. */
const MAX_BODY_BYTES = 1_000

/**
 * The API key in the request's cookie; undefined if it has none.
 * @throws ServiceError `cross_origin` for a request that changes something and does not come from a page of this server.
 */
export function keyInCookie({ method, headers }: Request): string | undefined {
  const key = cookieIn(headers)
  if (key === undefined || method === 'GET' || method === 'HEAD') return key
  requireSameOrigin(headers)
  return key
}

function cookieIn(headers: Headers): string | undefined {
  const [, value] = new RegExp(`(?:^|; *)${cookieOf(headers)}=([^;]*)`).exec(headers.get('cookie') ?? '') ?? []
  return value === undefined || value === '' ? undefined : value
}

/** Browsers say where a request comes from, in headers that no page can change. @throws ServiceError `cross_origin`. */
function requireSameOrigin(headers: Headers): void {
  const origin = headers.get('origin') ?? ''
  if (headers.get('sec-fetch-site') === 'same-origin') return
  if (URL.canParse(origin) && new URL(origin).host === headers.get('host')) return
  throw new ServiceError('cross_origin', 403, 'A request with the cookie of the console must come from a page of this server.')
}

/** Adds the routes with which the console signs in and out. `refusalFor`: the refusal of a key that is not accepted. */
export function addLogin(app: Hono, refusalFor: (key: string, request: Request) => Promise<Response | undefined>): void {
  app.post('/console/login', async (context) => {
    try {
      requireSameOrigin(context.req.raw.headers)
      const { key } = ((await bodyOf(context.req.raw, MAX_BODY_BYTES)) ?? {}) as { key?: unknown }
      if (typeof key !== 'string' || !/^[\w-]{1,200}$/.test(key))
        throw new ServiceError('invalid_input', 400, 'body.key: must be an API key.')
      const refused = await refusalFor(key, context.req.raw)
      if (refused) return refused
      const secure = new URL(context.req.url).protocol === 'https:' || context.req.header('x-forwarded-proto') === 'https'
      setCookie(context, cookieOf(context.req.raw.headers), key, { httpOnly: true, sameSite: 'Strict', path: '/', maxAge: KEPT_S, secure })
      return context.body(null, 204)
    } catch (error) {
      return refusal(error)
    }
  })
  app.post('/console/logout', (context) => {
    try {
      requireSameOrigin(context.req.raw.headers)
      deleteCookie(context, cookieOf(context.req.raw.headers), { path: '/' })
      return context.body(null, 204)
    } catch (error) {
      return refusal(error)
    }
  })
}
