// Which failures of Anthropic's API are retried, when, and under which code.
import Anthropic, { APIConnectionError, APIConnectionTimeoutError, APIError } from '@anthropic-ai/sdk'
import { describe, expect, it } from 'vitest'
import { ModelError } from '../../src/agent/errors.ts'
import { isThinkingRefused, modelErrorOf } from '../../src/models/anthropic-errors.ts'
import { retryAfterMsOf } from '../../src/models/call-errors.ts'

function httpError(status: number, type?: string, headers: Record<string, string> = {}, message = 'because'): APIError {
  return APIError.generate(status, type ? { type: 'error', error: { type, message } } : undefined, undefined, new Headers(headers))
}

function midStream(type: string): APIError {
  return new APIError(undefined, { type: 'error', error: { type, message: 'because' } }, undefined, new Headers(), type as never)
}

describe('an HTTP error', () => {
  it.each([
    [408, 'timeout_error'],
    [409, 'conflict_error'],
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [503, 'api_error'],
    [504, 'timeout_error'],
    [529, 'overloaded_error'],
  ])('an HTTP error %i is retried, as %s', (status, type) => {
    expect(modelErrorOf(httpError(status, type), 'claude', 'request')).toMatchObject({ code: type, status, retryable: true })
  })

  it.each([
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [402, 'billing_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
  ])('an HTTP error %i is not retried, as %s', (status, type) => {
    expect(modelErrorOf(httpError(status, type), 'claude', 'request')).toMatchObject({ code: type, status, retryable: false })
  })

  it.each([
    [413, 'request_too_large', 'Request exceeds the maximum size'],
    [413, undefined, 'Request Entity Too Large'],
    [400, 'invalid_request_error', 'prompt is too long: 208310 tokens > 200000 maximum'],
    [400, 'invalid_request_error', 'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length'],
  ])('an HTTP error %i %s ("%s") is a context overflow', (status, type, message) => {
    const error = modelErrorOf(httpError(status, type, {}, message), 'claude', 'request')
    expect(error).toMatchObject({ code: 'context_overflow', status, retryable: false, fallback: false })
    expect(error.message).toContain('Declare `compaction` for the agent')
  })

  it('an HTTP error of another platform is a context overflow if its message says so', () => {
    const foreign = Object.assign(new Error('400 Input is too long for requested model.'), { status: 400 })
    expect(modelErrorOf(foreign, 'claude', 'request').code).toBe('context_overflow')
  })

  it.each([
    [401, 'authentication_error', 'because', true],
    [402, 'billing_error', 'because', true],
    [403, 'permission_error', 'because', true],
    [404, 'not_found_error', 'because', true],
    [400, 'invalid_request_error', 'Your credit balance is too low to access the Anthropic API.', true],
    [400, 'invalid_request_error', 'because', false],
    [429, 'rate_limit_error', 'because', true],
    [529, 'overloaded_error', 'because', true],
  ])('an HTTP error %i %s ("%s") may be answered by another model: %s', (status, type, message, fallback) => {
    expect(modelErrorOf(httpError(status, type, {}, message), 'claude', 'request').fallback).toBe(fallback)
  })

  it('an HTTP error without a type, such as one from a proxy, is named by its status', () => {
    expect(modelErrorOf(httpError(502), 'claude', 'request')).toMatchObject({ code: 'http_502', retryable: true })
    expect(modelErrorOf(httpError(418), 'claude', 'request')).toMatchObject({ code: 'http_418', retryable: false })
  })

  it('an HTTP error names the model, the status, the cause and what to do', () => {
    const { message, cause } = modelErrorOf(httpError(401, 'authentication_error', {}, 'invalid x-api-key'), 'claude-x', 'request')
    expect(message).toBe('claude-x: 401 invalid x-api-key. Check ANTHROPIC_API_KEY, or the client passed to anthropic().')
    expect(cause).toBeInstanceOf(Anthropic.AuthenticationError)
  })

  it('an HTTP error of another copy of the SDK is recognised by its shape', () => {
    const foreign = Object.assign(new Error('429 slow down'), {
      status: 429,
      type: 'rate_limit_error',
      headers: new Headers({ 'retry-after': '2' }),
    })
    expect(modelErrorOf(foreign, 'claude', 'request')).toMatchObject({ code: 'rate_limit_error', retryable: true, retryAfterMs: 2000 })
  })
})

describe('an error event inside the stream', () => {
  it.each(['overloaded_error', 'api_error', 'rate_limit_error', 'timeout_error'])(
    'an error event inside the stream %s is retried',
    (type) => {
      expect(modelErrorOf(midStream(type), 'claude', 'stream')).toMatchObject({ code: type, status: undefined, retryable: true })
    },
  )

  it.each(['invalid_request_error', 'authentication_error', 'permission_error'])(
    'an error event inside the stream %s is not retried',
    (type) => {
      expect(modelErrorOf(midStream(type), 'claude', 'stream')).toMatchObject({ code: type, retryable: false })
    },
  )
})

describe('a lost connection', () => {
  it('a lost connection is retried, and names the innermost cause', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:9'), { code: 'ECONNREFUSED' })
    const error = new APIConnectionError({ cause: new TypeError('fetch failed', { cause: refused }) })
    const result = modelErrorOf(error, 'claude', 'request')
    expect(result).toMatchObject({ code: 'connection_error', retryable: true })
    expect(result.message).toContain('connect ECONNREFUSED 127.0.0.1:9')
  })

  it('a lost connection after a timeout of the SDK or of the socket is a timeout', () => {
    expect(modelErrorOf(new APIConnectionTimeoutError(), 'claude', 'request').code).toBe('timeout')
    const body = new TypeError('terminated', { cause: Object.assign(new Error('Body Timeout Error'), { code: 'UND_ERR_BODY_TIMEOUT' }) })
    expect(modelErrorOf(body, 'claude', 'stream')).toMatchObject({ code: 'timeout', retryable: true })
  })

  it('a lost connection in the middle of the answer is a cut stream', () => {
    const reset = new TypeError('terminated', { cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }) })
    expect(modelErrorOf(reset, 'claude', 'stream')).toMatchObject({ code: 'stream_cut', retryable: true })
    expect(modelErrorOf(new SyntaxError('Unexpected token'), 'claude', 'stream')).toMatchObject({ code: 'stream_cut', retryable: true })
  })
})

describe('anything else', () => {
  it('anything thrown before the answer is retried', () => {
    expect(modelErrorOf(new Error('key service is down'), 'claude', 'request')).toMatchObject({
      code: 'model_call_failed',
      retryable: true,
    })
    expect(modelErrorOf('text', 'claude', 'request')).toMatchObject({ code: 'model_call_failed', retryable: true, cause: 'text' })
  })

  it('a ModelError that was thrown before the answer is kept unchanged', () => {
    const own = new ModelError('mine', 'Mine.', { retryable: false })
    expect(modelErrorOf(own, 'claude', 'request')).toBe(own)
  })
})

describe('retry-after', () => {
  const now = Date.parse('2026-11-21T10:00:00Z')
  it.each([
    [{ 'retry-after': '3' }, 3000],
    [{ 'retry-after': '0.5' }, 500],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '-4' }, undefined],
    [{ 'retry-after-ms': '-4', 'retry-after': '9' }, 9000],
    [{ 'retry-after': String(now / 1000 + 30) }, 30_000],
    [{ 'retry-after': String(now + 30_000) }, 30_000],
    [{ 'retry-after-ms': String(now + 30_000) }, 30_000],
    [{ 'retry-after': String(now / 1000 - 30) }, 0],
    [{ 'retry-after': '1e999' }, undefined],
    [{ 'retry-after': 'Sat, 21 Nov 2026 10:00:30 GMT' }, 30_000],
    [{ 'retry-after': 'Sat, 21 Nov 2026 09:00:00 GMT' }, 0],
    [{ 'retry-after-ms': '1250', 'retry-after': '9' }, 1250],
    [{ 'retry-after-ms': 'soon', 'retry-after': '9' }, 9000],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{}, undefined],
  ])('the header retry-after %j asks for a wait of %s ms', (headers, expected) => {
    expect(retryAfterMsOf(new Headers(headers as Record<string, string>), now)).toBe(expected)
  })

  it('retry-after is kept only for errors that are retried', () => {
    expect(modelErrorOf(httpError(529, 'overloaded_error', { 'retry-after-ms': '40' }), 'claude', 'request').retryAfterMs).toBe(40)
    expect(modelErrorOf(httpError(400, 'invalid_request_error', { 'retry-after': '4' }), 'claude', 'request').retryAfterMs).toBeUndefined()
  })
})

describe('thinking that the API does not accept back', () => {
  it.each([
    'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block.',
    'messages.1.content.0: Invalid `signature` in `thinking` block',
    'messages.7.content.3: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.',
  ])('thinking that the API does not accept back is recognised: %s', (message) => {
    expect(isThinkingRefused(modelErrorOf(httpError(400, 'invalid_request_error', {}, message), 'claude', 'request'))).toBe(true)
  })

  it.each([
    [400, '"thinking.type.enabled" is not supported for this model.'],
    [400, 'prompt is too long'],
    [500, 'Invalid `signature` in `thinking` block'],
  ])('thinking that the API does not accept back is not the cause of %i: %s', (status, message) => {
    expect(isThinkingRefused(modelErrorOf(httpError(status, 'invalid_request_error', {}, message), 'claude', 'request'))).toBe(false)
  })
})
