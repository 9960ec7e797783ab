// Errors as responses: the status of each of pawl's error classes and codes, and the body as in RFC 9457 (application/problem+json).
import { PawlError } from '../session/errors.ts'
import { refusalText } from '../ui/user-texts.ts'
import { type RefusedPart, ServiceError } from './errors.ts'

/** The media type of a refusal. */
export const PROBLEM_TYPE = 'application/problem+json'

/** The body of a refusal. */
export interface ProblemBody {
  /** `urn:pawl:error:<code>`. */
  type: string
  /** The status in words. */
  title: string
  status: number
  /** Stable: programs can branch on it. */
  code: string
  /** What happened, and what to do next, for developers. */
  detail: string
  /** What a page may show to its user, in English. */
  userMessage: string
  /** Which parts of the request were refused. */
  parts?: readonly RefusedPart[]
  /** What the session waits for. */
  waitsFor?: string
}

/**
 * The status of a class's errors, unless their code has another one. 500 for all other classes: pages, workers, tests and command lines
 * throw them, and in a request they are bugs.
 */
const STATUS_OF_CLASS: Readonly<Record<string, number>> = {
  InvalidOptionError: 400,
  InvalidMessageError: 400,
  SessionNotFoundError: 404,
  MessageRejectedError: 409,
  RunInterruptedError: 409,
  RunFailedError: 409,
  RequestRefusedError: 409,
  SessionUnavailableError: 503,
  ConnectError: 503,
  ResultTimeoutError: 504,
}

/** The classes whose status depends on the code. */
const BY_CODE = new Set(['InvalidMessageError', 'MessageRejectedError', 'RequestRefusedError', 'StoreError'])

const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  agent_not_served: 503,
  archive_unavailable: 503,
  events_gone: 410,
  events_unavailable: 503,
  foreign_namespace: 503,
  execution_unreadable: 503,
  inbox_full: 429,
  message_too_large: 413,
  no_agent: 409,
  no_store: 503,
  request_id_reused: 422,
  not_an_approver: 403,
  schema_behind: 503,
  session_erased: 410,
  session_not_loaded: 503,
  stale_watermark: 503,
  store_closed: 503,
  store_unavailable: 503,
  undecodable: 400,
  unknown_strategy: 400,
  workflow_reset: 503,
}

/** Statuses after which the same request may succeed, with the seconds to wait. */
const RETRY_AFTER_S: Readonly<Record<number, string>> = { 429: '2', 503: '2', 504: '2' }

/** The response's status for an error. */
export function statusOf(error: unknown): number {
  if (error instanceof ServiceError) return error.status
  if (!(error instanceof PawlError)) return 500
  const byCode = BY_CODE.has(error.name) ? statusOfCode(error) : undefined
  return byCode ?? STATUS_OF_CLASS[error.name] ?? 500
}

function statusOfCode({ name, code }: PawlError): number | undefined {
  const named = STATUS_OF_CODE[code]
  if (named !== undefined) return named
  if (name !== 'RequestRefusedError') return undefined
  if (code.endsWith('_not_found')) return 404
  return code.startsWith('invalid_') ? 400 : undefined
}

/** The body for an error. Errors that are not pawl's are not described, because their messages may contain anything. */
export function problemOf(error: unknown): ProblemBody {
  const status = statusOf(error)
  const { code, message } = error instanceof PawlError ? error : UNEXPECTED
  const waitsFor = (error as { waitsFor?: unknown } | null)?.waitsFor
  return {
    type: `urn:pawl:error:${code}`,
    title: TITLES[status] ?? 'Error',
    status,
    code,
    detail: overHttp(message),
    userMessage: refusalText(code, status, error instanceof ServiceError ? error.parts.map(({ at }) => at) : []),
    ...(error instanceof ServiceError && error.parts.length > 0 && { parts: error.parts }),
    ...(typeof waitsFor === 'string' && { waitsFor }),
  }
}

/**
 * pawl's texts name what to do next in TypeScript or on a command line. An HTTP client uses these requests instead. Commands
 * for operators of the deployment, such as `pawl migrate`, stay as they are.
 */
const OVER_HTTP: readonly [named: RegExp, request: string][] = [
  [/Name the agent, pawl\.session\(id, \{ agent \}\),/g, 'Add `agent` to the body'],
  [/send it a message to start it\./g, 'start it with `POST /v1/sessions`.'],
  [/list them with session\.checkpoints\(\)/g, '`GET /v1/sessions/{session}/checkpoints` lists them'],
  [/call session\.recover\(\{ strategy: '(\w+)' \}\)/g, 'send {"strategy":"$1"} to `POST /v1/sessions/{session}/recover`'],
  [/\(await session\.state\(\)\)\.error\.options/g, '`error.options` of `GET /v1/sessions/{session}/state`'],
  [/Open it again with resume,/g, 'Open it again with `POST /v1/sessions/{session}/resume`,'],
  [/`pawl pending`/g, '`GET /v1/pending`'],
  [/`pawl show [^`]+`/g, '`GET /v1/sessions/{session}`'],
  [/`pawl raise [^`]+`/g, '`POST /v1/sessions/{session}/raise`'],
]

function overHttp(text: string): string {
  return OVER_HTTP.reduce((so, [named, request]) => so.replace(named, request), text)
}

const UNEXPECTED = new ServiceError('internal_error', 500, 'The request failed for an unexpected reason. See the server log for the error.')

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
}

export function refusal(error: unknown): Response {
  const problem = problemOf(error)
  const retryAfter = RETRY_AFTER_S[problem.status]
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: {
      'content-type': PROBLEM_TYPE,
      'cache-control': 'no-store',
      ...(retryAfter !== undefined && { 'retry-after': retryAfter }),
      ...(error instanceof ServiceError && error.headers),
    },
  })
}
