// The web handler: accepts a `Request`, returns a `Response`. Every request needs the consent of `authorize`, except for the probes and the
// description of the interface.
import { inspect } from 'node:util'
import { Hono } from 'hono'
import { z } from 'zod'
import type { Logger } from '../agent/tool.ts'
import { Pawl } from '../client/pawl.ts'
import type { SessionHandle } from '../client/types.ts'
import { plainFields } from '../log/plain.ts'
import { secretsBy } from '../log/secrets.ts'
import { withError } from '../log/user-logger.ts'
import { checkOptions, duration, fn, integer, oneOf, options, where } from '../options/check.ts'
import { logger } from '../options/shared.ts'
import { InvalidOptionError } from '../options/errors.ts'
import { isAgentName } from '../session/protocol/protocol.ts'
import type { Duration } from '../session/duration.ts'
import type { JsonObject } from '../session/json.ts'
import { type Access, accessOf, type Authorize, callerOf, isInScope, requireScope, requireSession, unauthorized } from './access.ts'
import { ServiceError } from './errors.ts'
import { bodyOf, paramsOf, parsed, queryOf } from './input.ts'
import { consoleFiles } from './console.ts'
import { documentOf } from './openapi.ts'
import { refusal, statusOf } from './problem.ts'
import { readinessOf } from './readiness.ts'
import { requestMemory } from './request-memory.ts'
import { type RouteCall, MEMORY, type Route } from './route.ts'
import { APPROVAL_ROUTES } from './routes/approvals.ts'
import { BUDGET_ROUTES } from './routes/budgets.ts'
import { CALLER_ROUTES } from './routes/caller.ts'
import { CHANGE_ROUTES } from './routes/changes.ts'
import { LIST_ROUTES } from './routes/lists.ts'
import { SCHEDULE_ROUTES } from './routes/schedules.ts'
import { WEBHOOK_ROUTES } from './routes/webhooks.ts'
import { WORKER_ROUTES } from './routes/workers.ts'
import { SESSION_ROUTES } from './routes/sessions.ts'
import { UI_ROUTES } from './routes/ui.ts'
import { WATCH_ROUTES } from './routes/watch.ts'
import { sentInPieces } from './sending.ts'
import { streamsWith } from './streams.ts'
import { whenOpened } from './when-opened.ts'

/** Options of `createHandler`. */
export interface HandlerOptions {
  /** The connection to the deployment; the handler does not close it. */
  pawl: Pawl
  /**
   * Identifies the caller of a request, and returns what the caller may see and do. The handler refuses a request without its consent,
   * except for `/health`, `/ready` and `/openapi.json`. `authorize` must not read the request's body. If it throws, the response has status
   * 503 for pawl's `StoreError` or `ConnectError`, else 500.
   */
  authorize: Authorize
  /** The path that the handler is mounted at, if requests include it: `/api/pawl`. Default: none. */
  basePath?: string
  /** Names of the agents that sessions may be started with. Default: any; a session of an agent that no worker serves waits for one. */
  agents?: readonly string[]
  /**
   * Which error texts chat pages (`/v1/ui`) receive. `masked`, the default: only those meant for users, such as the message of a
   * `ToolError`. `shown`: also the messages of other exceptions that tools throw, and the reasons of failed runs.
   */
  errorTexts?: 'masked' | 'shown'
  /** The maximum size of a request's body, in bytes: 1,000 to 100,000,000. Default 2,000,000; messages of up to 20 MB need more. */
  maxBodyBytes?: number
  /** The maximum number of event streams that are open at the same time in this process: an integer from 1. Default 2,000. */
  maxWatches?: number
  /** The maximum number of event streams that one caller (`identity` in its `tenant`) has open here. Default: a quarter of `maxWatches`. */
  maxWatchesPerCaller?: number
  /**
   * The approximate memory for requests in progress, in bytes: an integer from 100,000,000. One caller's requests get at most a quarter of
   * it. Further requests wait for at most 10 seconds. Default 512,000,000.
   */
  requestMemory?: number
  /** A stream sends a comment after this long without an event, so that proxies keep it open. At most 24 days. Default `'15s'`. */
  keepAlive?: Duration
  /** A stream, or a large response, ends when its client has read nothing for this long. At most 24 days. Default `'60s'`. */
  stalledAfter?: Duration
  /**
   * The longest time until the handler calls `authorize` again for an open stream. At most 24 days. Default `'2m'`. Only `null`, or access
   * to less, ends the stream. If `authorize` throws, the handler calls it again later.
   */
  reauthorizeEvery?: Duration
  /**
   * Serves the console, a page for operators, at `<basePath>/console/`. It sends its requests as the page's visitor, so `authorize` must
   * know them by a cookie. Default false.
   */
  console?: boolean
  /** Logs requests that failed unexpectedly. Default: lines on standard error. */
  logger?: Logger
}

/** A web handler: call it with a request. */
export interface Handler {
  /**
   * Answers a request; never rejects.
   * @throws InvalidOptionError `invalid_option` for an argument that is not a `Request`, such as Node's own request object.
   */
  (request: Request): Promise<Response>
  /**
   * Call it before the process ends. Streams end with a hint about when to reconnect, the handler opens no new ones, and `/ready` answers
   * 503. Other requests are answered as before.
   */
  drain(): void
  /** The OpenAPI 3.1 document, which the handler also serves at `/openapi.json`. */
  readonly openApi: JsonObject
}

const OPTIONS = options({
  pawl: where<Pawl>((value) => value instanceof Pawl, 'the result of Pawl.connect()'),
  authorize: fn<Authorize>('a function from a Request to an access or null'),
  basePath: where<string>(
    (value) => typeof value === 'string' && /^(\/[^/?#{}:*]+)*$/.test(value),
    "a path such as '/api/pawl'",
  ).optional(),
  agents: where<string[]>(
    (value) => Array.isArray(value) && value.length > 0 && value.every(isAgentName),
    'a list of the names of agents',
  ).optional(),
  errorTexts: oneOf('masked', 'shown').optional(),
  maxBodyBytes: integer(1_000, 100_000_000).optional(),
  maxWatches: integer(1).optional(),
  maxWatchesPerCaller: integer(1).optional(),
  requestMemory: integer(100_000_000).optional(),
  keepAlive: duration({ example: '15s' }).optional(),
  stalledAfter: duration({ example: '60s' }).optional(),
  reauthorizeEvery: duration({ example: '2m' }).optional(),
  console: z.boolean().optional(),
  logger: logger<Logger>().optional(),
})

/** All routes, except those of the console's files. */
export const ROUTES: readonly Route[] = [
  ...CALLER_ROUTES,
  ...SESSION_ROUTES,
  ...WATCH_ROUTES,
  ...CHANGE_ROUTES,
  ...LIST_ROUTES,
  ...APPROVAL_ROUTES,
  ...BUDGET_ROUTES,
  ...SCHEDULE_ROUTES,
  ...WEBHOOK_ROUTES,
  ...WORKER_ROUTES,
  ...UI_ROUTES,
]
/** A request that may be answered. */
interface AdmittedRequest {
  route: Route
  request: Request
  access: Access
  params: never
  query: never
  body: never
}

/** A body's text, its JSON, and what is made from it. */
const BODY_FACTOR = 5

/** The approximate memory for the body of a request. One of unknown size may have any allowed size. */
function neededByBody({ method }: Route, { headers }: Request, maxBodyBytes: number): number {
  if (method === 'get') return 0
  const length = Number(headers.get('content-length') ?? maxBodyBytes)
  return BODY_FACTOR * Math.min(length, maxBodyBytes)
}

/** How long a request waits for memory. */
const PATIENCE_MS = 10_000
/** The minimum time that a stream stays open while `authorize` throws. */
const UNCHECKED_MS = 3_600_000
/** Does not use pino, which a bundled backend does not include. */
const ON_STDERR: Pick<Logger, 'error'> = {
  error: (fields, message) => void process.stderr.write(`${message} ${inspect(fields, { breakLength: Number.POSITIVE_INFINITY })}\n`),
}
/**
 * Logs a failed request. Of its error it logs only what workers log: `authorize` may throw one whose members have the credentials. Never
 * throws.
 */
function failureLog(logger: Pick<Logger, 'error'>): (fields: object) => void {
  const isSecret = secretsBy([])
  return (fields) => {
    try {
      logger.error(withError(plainFields(fields, isSecret)), 'A request failed')
    } catch {
      // The line is lost.
    }
  }
}

const NOTHING = z.strictObject({})

/**
 * The HTTP interface of a deployment as one function, for any server that has `Request` and `Response`. docs/web.md describes its routes.
 * @throws InvalidOptionError `invalid_option`.
 */
export function createHandler(given: HandlerOptions): Handler {
  const checked = checkOptions(OPTIONS, given)
  const { pawl, authorize, agents, errorTexts = 'masked', basePath = '', maxBodyBytes = 2_000_000 } = checked
  const logFailure = failureLog(checked.logger ?? ON_STDERR)
  const { maxWatches = 2_000, stalledAfter: stalledAfterMs = 60_000, requestMemory: totalBytes = 512_000_000 } = checked
  const memory = requestMemory({ totalBytes, callerBytes: Math.ceil(totalBytes / 4), patienceMs: PATIENCE_MS })
  const streams = streamsWith({
    keepAliveMs: checked.keepAlive ?? 15_000,
    stalledAfterMs,
    reauthorizeMs: checked.reauthorizeEvery ?? 120_000,
    uncheckedMs: UNCHECKED_MS,
    max: maxWatches,
    maxPerCaller: checked.maxWatchesPerCaller ?? Math.ceil(maxWatches / 4),
  })
  const ready = readinessOf(pawl, streams)
  const openApi = documentOf({ routes: ROUTES, basePath })

  async function admit(request: Request): Promise<Access> {
    return accessOf(await authorize(request))
  }

  async function carryOut(route: Route, request: Request, pathParams: Record<string, string>): Promise<Response> {
    const access = await admit(request)
    requireScope(access, route.scope)
    // The session is checked before the rest is read: for another tenant's session, the response does not even report a mistake in the
    // request.
    if (pathParams.session !== undefined) requireSession(access, pathParams.session)
    const params = parsed(route.params ?? NOTHING, paramsOf(pathParams, route.params ?? NOTHING), 'path')
    const queryMembers = route.query ?? NOTHING
    const query = parsed(queryMembers, queryOf(new URL(request.url).searchParams, queryMembers), 'query')
    const { memory: needed = MEMORY.little } = route
    const session = (id: string): SessionHandle => sessionOf(pawl, access, id)
    const bytes = typeof needed === 'number' ? needed : await needed({ session, params: params as never })
    const release = await memory.reserve(callerOf(access), bytes + neededByBody(route, request, maxBodyBytes), request.signal)
    try {
      const body = route.method === 'get' ? {} : parsed(route.body ?? NOTHING, await bodyOf(request, maxBodyBytes), 'body')
      const response = await answer({ pawl, agents, errorTexts, streams, admit }, {
        route,
        request,
        access,
        params,
        query,
        body,
      } as AdmittedRequest)
      return await sentInPieces(response, { onEnd: release, stalledAfterMs, signal: request.signal })
    } catch (error) {
      release()
      throw error
    }
  }

  /** Runs `work` and turns an error into a refusal. */
  async function answering(request: Request, work: () => Promise<Response>): Promise<Response> {
    try {
      return await work()
    } catch (error) {
      const { method, signal, url } = request
      // A client that has left is not a failure.
      const hasLeft = signal.aborted && error === signal.reason
      if (statusOf(error) === 500 && !hasLeft) logFailure({ err: error, method, path: new URL(url).pathname })
      return refusal(error)
    }
  }

  const app = new Hono({ strict: true })
  const at = app.basePath(basePath)
  at.get('/health', () => json({ status: 'ok' }, 200))
  at.get('/ready', async () => {
    const { isReady, ...readiness } = await ready()
    return json(readiness, isReady ? 200 : 503)
  })
  // Public, as tools that generate clients and pages from it expect: it describes pawl's interface, not the deployment.
  at.get('/openapi.json', () => json(openApi, 200))
  if (checked.console) {
    const files = consoleFiles()
    at.get('/console', ({ req }) => new Response(null, { status: 308, headers: { location: `${new URL(req.url).pathname}/` } }))
    at.get('/console/*', ({ req }) => files.answer(req.path.slice(`${basePath}/console/`.length), req.raw))
  }
  for (const route of ROUTES) {
    at.on(route.method.toUpperCase(), route.path.replaceAll(/\{(\w+)\}/g, ':$1'), async (context) => {
      const { raw: request } = context.req
      const response = await answering(request, () => carryOut(route, request, context.req.param() as Record<string, string>))
      // Nobody would read the body, and a stream would stay open.
      if (request.method === 'HEAD') await response.body?.cancel()
      return response
    })
  }
  for (const [path, methods] of methodsByPath()) {
    at.all(path, (context) =>
      answering(context.req.raw, async () => {
        await admit(context.req.raw)
        return refuseMethod(methods)
      }),
    )
  }
  app.notFound((context) =>
    answering(context.req.raw, async () => {
      await admit(context.req.raw)
      return refuseRoute(context.req.url, basePath)
    }),
  )
  app.onError((error, context) => answering(context.req.raw, () => Promise.reject(error)))

  // Express catches what a listener throws, not a promise that rejects.
  const handler = (request: Request): Promise<Response> => {
    if (typeof (request as Partial<Request> | undefined)?.headers?.get !== 'function')
      throw new InvalidOptionError(
        'A handler must be called with a web Request. In Express, Fastify and node:http, pass nodeListener(handler) instead.',
      )
    return Promise.resolve(app.fetch(request))
  }
  return Object.assign(handler, { drain: () => streams.drain(), openApi })
}

/** What the handler has for its routes. */
interface HandlerParts extends Pick<RouteCall<never, never, never>, 'pawl' | 'agents' | 'errorTexts' | 'streams'> {
  /** Identifies the caller of a request. */
  admit(request: Request): Promise<Access>
}

/** @throws SessionNotFoundError for a session of another tenant. */
function sessionOf(pawl: Pawl, access: Access, id: string): SessionHandle {
  requireSession(access, id)
  return pawl.session(id)
}

async function answer(
  { pawl, agents, errorTexts, streams, admit }: HandlerParts,
  { route, request, access, params, query, body }: AdmittedRequest,
): Promise<Response> {
  const call: RouteCall<never, never, never> = {
    pawl,
    access,
    by: access.identity,
    request,
    params,
    query,
    body,
    streams,
    agents,
    errorTexts,
    session: (id) => sessionOf(pawl, access, id),
    async reauthorize(sessionId) {
      const now = await admit(request)
      requireScope(now, route.scope)
      if (sessionId === undefined ? now.tenant !== access.tenant : !isInScope(now, sessionId)) throw unauthorized()
    },
  }
  const result = await (route.method === 'get' ? whenOpened(() => route.handle(call)) : route.handle(call))
  if (result instanceof Response) return result
  return json(result, route.answer.schema ? route.answer.status : route.answer.status === 204 ? 204 : 202)
}

function methodsByPath(): Map<string, string[]> {
  const methods = new Map<string, string[]>([
    ['/health', ['GET']],
    ['/ready', ['GET']],
    ['/openapi.json', ['GET']],
  ])
  for (const { path, method } of ROUTES) {
    const pattern = path.replaceAll(/\{(\w+)\}/g, ':$1')
    methods.set(pattern, [...(methods.get(pattern) ?? []), method.toUpperCase()])
  }
  return methods
}

function refuseMethod(methods: readonly string[]): never {
  const allow = methods.join(', ')
  throw new ServiceError('method_not_allowed', 405, `This path accepts only ${allow}.`, { headers: { allow } })
}

function refuseRoute(url: string, basePath: string): never {
  const { pathname } = new URL(url)
  const where = `the routes begin with ${basePath}/v1/, and ${basePath}/openapi.json lists them`
  throw new ServiceError(
    'route_not_found',
    404,
    `The handler has no route ${pathname}: ${where}. If it is mounted elsewhere, set basePath.`,
  )
}

function json(value: unknown, status: number): Response {
  // A shared cache must not store the response, because it depends on the caller.
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  if (status === 204) return new Response(null, { status })
  return new Response(JSON.stringify(value ?? {}), { status, headers })
}
