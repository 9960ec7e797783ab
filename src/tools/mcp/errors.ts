// What a failed request to an MCP server says about the call: whether it may have happened, and whether another attempt makes sense.
import { ToolError } from '../../agent/errors.ts'
import { beginningOf } from '../../session/beginning.ts'
import { isObject } from '../../session/json.ts'

/** A server's text in an error. It is data for the model, like any result. */
const MAX_TEXT = 2_000

/** JSON-RPC errors of a server that refuses a request before it begins: unknown method, invalid parameters, headers that do not match. */
const INVALID_PARAMS = -32_602
const REFUSED_CODES = [-32_601, INVALID_PARAMS, -32_020]
/** HTTP statuses with which a server, or a proxy before it, does not accept a request. */
const REFUSED_STATUSES = [401, 403, 404, 405, 413, 415, 429]
/** Errors of connections that were never made. */
const NOT_CONNECTED = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'ENOENT',
  'EACCES',
  'NOT_CONNECTED',
]

/** Where a connection that was made fails. A network that breaks during a call reports some of the same codes. */
const IN_USE: readonly unknown[] = ['read', 'write']

/** The server does not process the request: the client lacks a capability, or the user must first open a URL (older protocols). */
const ASKS_FIRST: readonly unknown[] = [-32_021, -32_042]
/** The same, and a result of a kind that the SDK does not know. */
const ASKS_FOR_INPUT: readonly unknown[] = ['UNSUPPORTED_RESULT_TYPE', ...ASKS_FIRST]

/** The answer of a request ended before it was complete. pawl's own code, for a transport that reports nothing. */
export const STREAM_ENDED = -32_099

/** A request that pawl does not send, because it would go elsewhere. */
export class RedirectRefused extends Error {
  override readonly name = 'RedirectRefused'
}

/** An answer that is larger than allowed. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge'

  constructor(maxBytes: number) {
    super(`The answer has more than ${maxBytes.toLocaleString('en-US')} bytes. Raise maxResultBytes, or have the tool return less.`)
  }
}

/** The server cannot be reached, so nothing was requested. */
export function unavailable(server: string, cause: unknown): ToolError {
  if (cause instanceof ToolError) return cause
  const message = `The MCP server "${server}" is unavailable: ${messageOf(cause)}`
  return new ToolError(message, { code: 'mcp_unavailable', happened: false, cause })
}

/**
 * The error of a tool for a failed request. `hasOutput`: the tool declares what it returns. Servers with an SDK of 2025 answer "invalid
 * parameters" also when the tool has run and its result does not match.
 */
export function toolErrorOf(server: string, error: unknown, hasOutput: boolean): ToolError {
  if (error instanceof ToolError) return error
  const { code, status, syscall } = factsOf(error)
  const it = `The MCP server "${server}"`
  if (code === INVALID_PARAMS && hasOutput)
    return new ToolError(`${it} failed: ${messageOf(error)}`, { code: 'mcp_call_failed', retryable: false, cause: error })
  if (isRefusal(error, code, status)) {
    const message = `${it} did not accept the call: ${messageOf(error)}`
    return new ToolError(message, { code: 'mcp_refused', retryable: status === 429, happened: false, cause: error })
  }
  if (typeof code === 'string' && NOT_CONNECTED.includes(code) && !IN_USE.includes(syscall)) return unavailable(server, error)
  if (error instanceof AnswerTooLarge)
    return new ToolError(`${it} sent too much. ${error.message}`, { code: 'mcp_result_too_large', retryable: false, cause: error })
  if (ASKS_FOR_INPUT.includes(code)) {
    const message = `${it} asks for input that pawl does not announce.`
    const about = { code: 'mcp_input_required', retryable: false, cause: error }
    return new ToolError(message, { ...about, ...(ASKS_FIRST.includes(code) && { happened: false as const }) })
  }
  const how = code === 'CONNECTION_CLOSED' || code === STREAM_ENDED ? 'ended the connection before it answered' : 'failed'
  return new ToolError(`${it} ${how}: ${messageOf(error)}`, { code: 'mcp_call_failed', cause: error })
}

/** Whether the server, or a proxy before it, refused the request before anything happened. */
function isRefusal(error: unknown, code: unknown, status: number | undefined): boolean {
  if (error instanceof RedirectRefused || (error instanceof Error && error.constructor.name === 'UnauthorizedError')) return true
  return (typeof code === 'number' && REFUSED_CODES.includes(code)) || (status !== undefined && REFUSED_STATUSES.includes(status))
}

/** The code of the error or of its innermost cause, its HTTP status, and the system call that failed. */
function factsOf(error: unknown): { code?: unknown; status?: number; syscall?: unknown } {
  const { code, status, syscall } = (isObject(error) || error instanceof Error ? error : {}) as Record<string, unknown>
  const cause = causeOf(error)
  if (cause !== undefined && (code === undefined || code === 'ERA_NEGOTIATION_FAILED')) return factsOf(cause)
  return { code, syscall, ...(typeof status === 'number' && { status }) }
}

/** The SDK has causes among its data. */
function causeOf(error: unknown): unknown {
  const { cause, data } = (error instanceof Error ? error : {}) as { cause?: unknown; data?: unknown }
  return cause ?? (isObject(data) ? data.cause : undefined)
}

/** Whether the server wants other credentials, or the provider wants the user to sign in. */
export function isUnauthorized(error: unknown): boolean {
  if (error instanceof Error && error.constructor.name === 'UnauthorizedError') return true
  if ((error as { status?: unknown } | null)?.status === 401) return true
  const cause = causeOf(error)
  return cause !== undefined && isUnauthorized(cause)
}

export function messageOf(error: unknown): string {
  const cause = causeOf(error)
  const { message = '' } = error instanceof Error ? error : {}
  // `fetch` says only that it failed, and an error of several addresses says nothing.
  if (cause !== undefined && (message === '' || message.endsWith('fetch failed'))) return messageOf(cause)
  const { errors } = (error ?? {}) as { errors?: unknown }
  if (message === '' && Array.isArray(errors) && errors.length > 0) return messageOf(errors[0])
  return beginningOf(message || String(error), MAX_TEXT)
}
