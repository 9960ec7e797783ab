// Converts errors from Anthropic's API to a ModelError that says whether and when to retry.
import { ModelError, noteHeader } from '../agent/errors.ts'
import { type CallPhase, isSocketTimeout, retryAfterMsOf, streamOf, withCauses } from './call-errors.ts'

/** Retryable HTTP statuses, besides every 5xx (529: overloaded). */
const RETRYABLE_STATUS = new Set([408, 409, 429])

/** Retryable error types inside a stream, whose HTTP status was 200. */
const RETRYABLE_TYPES = new Set(['overloaded_error', 'api_error', 'rate_limit_error', 'timeout_error'])

/** What a message says about an error that pawl retries. */
export const RETRIED = 'pawl retries it according to the agent’s `retry`; if it persists, check status.claude.com and the network.'

const WHAT_NEXT: Record<string, string> = {
  authentication_error: 'Check ANTHROPIC_API_KEY, or the client passed to anthropic().',
  billing_error: 'Check the plan and the credit balance of the Anthropic organization.',
  connection_error:
    'pawl retries it according to the agent’s `retry`; if it persists, check the network, the proxy and ANTHROPIC_BASE_URL.',
  invalid_request_error: 'Fix the problem that the API reports: options of anthropic(), instructions, tools or messages.',
  context_overflow:
    'Declare `compaction` for the agent and continue the run, abandon it, or go back (`recover`, `rollback`); or shrink messages, images and tool results, or lower `maxTokens`.',
  not_found_error: 'Check the name of the model and ANTHROPIC_BASE_URL.',
  permission_error: 'Check the permissions of the API key.',
  rate_limit_error: 'pawl retries it when the API allows; if it persists, run fewer sessions at once or request a higher limit.',
}

/** Statuses and types that mean that this account may not use this model. Another model may answer the same request. */
const NOT_ADMITTED = new Set<unknown>([
  ...[401, 402, 403, 404],
  ...['authentication_error', 'billing_error', 'permission_error', 'not_found_error'],
])
/** The 400 that the API returns for an account without credit. */
const NO_CREDIT = /credit balance is too low/i

/** How the API, Bedrock and Vertex say that a request does not fit into the model's context; 413 is a limit in bytes. */
const TOO_LONG = /(?:prompt|input) is too long|exceeds? (?:the )?context (?:limit|window)|maximum context length/i

/** An error of the SDK, recognised by its shape, because a user's client may come from another copy of the SDK. */
interface SdkError {
  name: string
  message: string
  status?: number
  type?: string
  headers?: Headers
}

/**
 * The ModelError for an error that a call of `model` threw.
 * Codes: `context_overflow`, otherwise Anthropic's error type if there is one, `http_<status>`, `timeout`, `connection_error`,
 * `stream_cut`, `model_call_failed`.
 */
export function modelErrorOf(error: unknown, model: string, phase: CallPhase): ModelError {
  if (error instanceof ModelError) return error
  const thrown = thrownOf(error)
  const { code, retryable } = classify(thrown, error, phase)
  return noteHeader(
    new ModelError(code, sentence(`${model}: ${detailOf(thrown, error)}`, code, retryable), {
      retryable,
      fallback: retryable || isNotAdmitted(thrown),
      status: thrown.status,
      phase: streamOf(phase),
      retryAfter: retryable && thrown.headers ? retryAfterMsOf(thrown.headers) : undefined,
      cause: error,
    }),
  )
}

/** No credentials were found. */
export function noApiKey(): ModelError {
  return new ModelError(
    'no_api_key',
    'No API key for Anthropic was found. Set ANTHROPIC_API_KEY in the worker’s environment, or pass an `apiKey` or a `client` to anthropic().',
    { retryable: false, fallback: true },
  )
}

/**
 * Whether the API refused thinking that an earlier call returned. Newer models bind their thinking to everything before it (system prompt,
 * tools, messages). Instructions rendered from the state, or a deployment with another tool, change that.
 */
export function isThinkingRefused(error: unknown): boolean {
  const { status, message } = thrownOf(error)
  return (
    status === 400 &&
    /thinking/.test(message) &&
    /bound to a different|invalid .?signature|cannot be modified|must match the parameters/i.test(message)
  )
}

/**
 * Whether the API refused what one of its own tools returned in an earlier call, such as a container that has expired or search results of
 * a tool that the agent no longer has.
 */
export function isServerToolRefused(error: unknown): boolean {
  const { status, message } = thrownOf(error)
  return (status === 400 || status === 404) && /server_tool_use|[a-z]_tool_result|encrypted_|citation|container/i.test(message)
}

function classify(thrown: SdkError, error: unknown, phase: CallPhase): { code: string; retryable: boolean } {
  const { status, type, name } = thrown
  if (isTooLong(thrown)) return { code: 'context_overflow', retryable: false }
  if (status !== undefined) {
    return { code: type ?? `http_${status}`, retryable: RETRYABLE_STATUS.has(status) || status >= 500 }
  }
  if (type !== undefined) return { code: type, retryable: RETRYABLE_TYPES.has(type) }
  if (name === 'APIConnectionTimeoutError' || isSocketTimeout(error)) return { code: 'timeout', retryable: true }
  if (name === 'APIConnectionError') return { code: 'connection_error', retryable: true }
  return { code: phase === 'stream' ? 'stream_cut' : 'model_call_failed', retryable: true }
}

function isTooLong({ status, type, message }: SdkError): boolean {
  if (status === 413 || type === 'request_too_large') return true
  return (status === 400 || (status === undefined && type === 'invalid_request_error')) && TOO_LONG.test(message)
}

function isNotAdmitted({ status, type, message }: SdkError): boolean {
  return NOT_ADMITTED.has(status) || NOT_ADMITTED.has(type) || (status === 400 && NO_CREDIT.test(message))
}

function thrownOf(error: unknown): SdkError {
  if (!(error instanceof Error)) return { name: 'unknown', message: String(error) }
  const { status, type, headers } = error as { status?: unknown; type?: unknown; headers?: unknown }
  return {
    name: error.name,
    message: error.message,
    ...(typeof status === 'number' && { status }),
    ...(typeof type === 'string' && type !== '' && { type }),
    ...(headers instanceof Headers && { headers }),
  }
}

/** The API's own message if there is one; for lost connections, the causes, because the innermost has the host and errno. */
function detailOf(thrown: SdkError, error: unknown): string {
  const said = (error as { apiMessage?: unknown } | null | undefined)?.apiMessage
  if (typeof said === 'string' && said !== '') return thrown.status === undefined ? said : `${thrown.status} ${said}`
  return withCauses(thrown.message, error)
}

function sentence(what: string, code: string, retryable: boolean): string {
  const next = WHAT_NEXT[code] ?? (retryable ? RETRIED : 'pawl does not retry it. Fix the problem that the API reports.')
  return `${what.replace(/\.?$/, '.')} ${next}`
}
