// Converts errors from the AI SDK and its providers to a ModelError that says whether and when to retry.
import { ModelError, noteHeader } from '../agent/errors.ts'
import { defined } from '../session/defined.ts'
import { type CallPhase, isSocketTimeout, retryAfterMsOf, streamOf, withCauses } from './call-errors.ts'

/** A kind of failure. The code is the same for all providers, and matches Anthropic's. */
type Code =
  | 'api_error'
  | 'authentication_error'
  | 'billing_error'
  | 'conflict_error'
  | 'connection_error'
  | 'context_overflow'
  | 'invalid_request_error'
  | 'model_call_failed'
  | 'no_api_key'
  | 'not_found_error'
  | 'overloaded_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'stream_cut'
  | 'timeout'
  | 'timeout_error'
  | 'unsupported'

/** A retry may help. */
const RETRYABLE = new Set<string>([
  ...['api_error', 'conflict_error', 'connection_error', 'model_call_failed', 'overloaded_error', 'rate_limit_error'],
  ...['stream_cut', 'timeout', 'timeout_error'],
])

/**
 * This account may not use this model, or the model lacks a capability that the request needs. Another model may answer the same request.
 */
const NOT_ADMITTED = new Set<string>([
  ...['authentication_error', 'billing_error', 'no_api_key', 'not_found_error', 'permission_error', 'unsupported'],
])

/** What a message says about an error that pawl retries. */
export const RETRIED = 'pawl retries it according to the agent’s `retry`; if it persists, check the provider’s status and the network.'

const WHAT_NEXT: Partial<Record<string, string>> = {
  authentication_error: 'Check the API key in the worker’s environment, or that of the provider passed to aiSdk().',
  billing_error: 'Check the plan and the credit of the account with the provider.',
  context_overflow:
    'Declare `compaction` for the agent and continue the run, abandon it, or go back (`recover`, `rollback`); or shrink messages, images and tool results, or lower `maxTokens`.',
  invalid_request_error: 'Correct what the provider names: settings of aiSdk(), instructions, tools or messages.',
  no_api_key: 'Set it in the worker’s environment, or pass it when you create the provider.',
  not_found_error: 'Check the name of the model and the address of the provider.',
  permission_error: 'Check the permissions of the API key.',
  rate_limit_error: 'pawl retries it when the provider allows; if it persists, run fewer sessions at once or request a higher limit.',
  unsupported: 'Remove what the model does not support, or use another model.',
}

const BY_STATUS: Record<number, Code> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  409: 'conflict_error',
  413: 'context_overflow',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'api_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** Errors that the AI SDK throws without a status. */
const BY_NAME: Record<string, Code> = {
  AI_LoadAPIKeyError: 'no_api_key',
  AI_LoadSettingError: 'no_api_key',
  AI_NoSuchModelError: 'not_found_error',
  AI_UnsupportedFunctionalityError: 'unsupported',
  AI_InvalidPromptError: 'invalid_request_error',
  AI_InvalidArgumentError: 'invalid_request_error',
  // The answer did not match the provider's API, for example because it was cut off in the middle of an event.
  AI_JSONParseError: 'stream_cut',
  AI_TypeValidationError: 'stream_cut',
  AI_InvalidResponseDataError: 'stream_cut',
  AI_EmptyResponseBodyError: 'stream_cut',
  AI_NoContentGeneratedError: 'stream_cut',
}

/** Failures recognised by the provider's message, before the status: an exhausted quota has the same status and type as a rate limit. */
const BY_WORDS: readonly [RegExp, Code][] = [
  [
    /context_length_exceeded|maximum context length|(?:prompt|input) is too long|exceeds? (?:the )?(?:model's )?context (?:limit|window|length)|exceeds the maximum number of (?:input )?tokens/i,
    'context_overflow',
  ],
  [/insufficient_quota|billing_not_active|billing_hard_limit|credit balance is too low|credits are depleted/i, 'billing_error'],
  [/api[ _]key not valid|api_key_invalid|invalid_api_key/i, 'authentication_error'],
]

/** Failures recognised by the types and codes that providers send inside a stream, whose status was 200. */
const BY_TYPE: readonly [RegExp, Code][] = [
  [/rate_?limit|resource_exhausted|too_many_requests/i, 'rate_limit_error'],
  [/overloaded|unavailable/i, 'overloaded_error'],
  [/timeout|deadline_exceeded/i, 'timeout_error'],
  [/authentication|unauthenticated/i, 'authentication_error'],
  [/permission/i, 'permission_error'],
  [/not_found/i, 'not_found_error'],
  [/invalid|failed_precondition|content_policy|image_parse/i, 'invalid_request_error'],
]

/** The ModelError for an error that a call of `model` threw or that its stream reported. */
export function callErrorOf(error: unknown, model: string, phase: CallPhase): ModelError {
  if (error instanceof ModelError) return error
  const said = saidIn(error)
  const code = codeOf(said, error, phase)
  const retryable = RETRYABLE.has(code) || (code.startsWith('http_') && (said.status ?? 0) >= 500)
  const what = `${model}: ${said.status === undefined ? '' : `${said.status} `}${detailOf(said, error)}`
  return noteHeader(
    new ModelError(code, sentence(what, code, retryable), {
      retryable,
      fallback: retryable || NOT_ADMITTED.has(code),
      status: said.status,
      phase: streamOf(phase),
      retryAfter: retryable ? said.retryAfterMs : undefined,
      cause: error,
    }),
  )
}

const REFUSED_DATA =
  /thought[ _]?signature|encrypted[ _]content|(?:invalid|corrupted).{0,20}signature|bound to a different|of type 'reasoning'|item with id '[^']+' not found/i

/** Whether the provider refused thinking or metadata from one of its own earlier answers. */
export function isProviderDataRefused(error: unknown): boolean {
  const { status, text } = saidIn(error)
  return (status === 400 || status === 404) && REFUSED_DATA.test(text)
}

/** An error's message, wherever its provider puts it. */
interface ErrorDetails {
  name: string
  message: string
  status?: number
  /** The provider's own codes and types. */
  types: string
  /** All of the above, for searching. */
  text: string
  retryAfterMs?: number | undefined
}

function saidIn(error: unknown): ErrorDetails {
  const layers = layersOf(error)
  const texts = (key: string) => layers.flatMap((layer) => (typeof layer[key] === 'string' && layer[key] !== '' ? [layer[key]] : []))
  const [status] = layers.flatMap(statusIn)
  const types = [...texts('code'), ...texts('type'), ...texts('status'), ...texts('reason')].join(' ')
  // The innermost message is the provider's own.
  const message = texts('message').at(-1) ?? (typeof error === 'string' ? error : '')
  return {
    name: texts('name')[0] ?? '',
    message,
    ...defined({ status }),
    types,
    text: [types, ...texts('message'), message].join(' '),
    retryAfterMs: layers.map(retryAfterIn).find((ms) => ms !== undefined),
  }
}

type Layer = Record<string, unknown>

/** The error and the layers inside it, outermost first: the response's body, the frame of a stream, and the error that they describe. */
function layersOf(error: unknown): Layer[] {
  const layers: Layer[] = []
  const visit = (given: unknown): void => {
    if (typeof given !== 'object' || given === null || layers.length >= 8) return
    const layer = given as Layer
    layers.push(layer)
    visit(layer.data ?? parsed(layer.responseBody))
    visit(layer.response)
    visit(layer.error)
  }
  visit(error)
  return layers
}

function parsed(body: unknown): unknown {
  if (typeof body !== 'string') return undefined
  try {
    const found: unknown = JSON.parse(body)
    // Google's API answers some errors with a list of one.
    return Array.isArray(found) ? found[0] : found
  } catch {
    return undefined
  }
}

/** The HTTP status of a failure. Google's API calls it `code`. */
function statusIn({ statusCode, status, code }: Layer): number[] {
  return [statusCode, status, code].filter((one): one is number => typeof one === 'number' && one >= 400 && one < 600).slice(0, 1)
}

/** The wait that a header names, or Google's RetryInfo in the details of an error (`"retryDelay": "36s"`). */
function retryAfterIn({ responseHeaders, details }: Layer): number | undefined {
  if (typeof responseHeaders === 'object' && responseHeaders !== null) {
    const headers = new Headers(
      Object.entries(responseHeaders).filter(
        (header): header is [string, string] => /^retry-after/i.test(header[0]) && typeof header[1] === 'string',
      ),
    )
    const ms = retryAfterMsOf(headers)
    if (ms !== undefined) return ms
  }
  if (!Array.isArray(details)) return undefined
  for (const { retryDelay } of details.filter((detail): detail is Layer => typeof detail === 'object' && detail !== null)) {
    const [, seconds] = typeof retryDelay === 'string' ? (/^(\d+(?:\.\d+)?)s$/.exec(retryDelay) ?? []) : []
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000)
  }
  return undefined
}

function codeOf({ name, status, types, text }: ErrorDetails, error: unknown, phase: CallPhase): Code | `http_${number}` {
  const named = BY_NAME[name]
  if (named) return named
  const worded = status === undefined || status < 500 ? BY_WORDS.find(([words]) => words.test(text))?.[1] : undefined
  if (worded) return worded
  if (status !== undefined) return BY_STATUS[status] ?? `http_${status}`
  const typed = BY_TYPE.find(([words]) => words.test(types))?.[1]
  if (typed) return typed
  if (isSocketTimeout(error)) return 'timeout'
  if (phase === 'stream') return error instanceof Error ? 'stream_cut' : 'api_error'
  return name === 'AI_APICallError' ? 'connection_error' : 'model_call_failed'
}

function detailOf({ message, types }: ErrorDetails, error: unknown): string {
  const said = message === '' ? types || 'the provider reported an error without a message' : message
  return withCauses(said, error)
}

function sentence(what: string, code: string, retryable: boolean): string {
  const next = WHAT_NEXT[code] ?? (retryable ? RETRIED : 'pawl does not retry it. Correct what the provider names.')
  return `${what.replace(/\.?$/, '.')} ${next}`
}
