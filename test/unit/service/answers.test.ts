// What the web handler makes of errors, of the result of `authorize`, and of the text of requests.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { InvalidMessageError, RequestRefusedError, SessionNotFoundError, SessionUnavailableError } from '../../../src/client/errors.ts'
import { StoreError } from '../../../src/connect/errors.ts'
import { accessOf, contextFor, isInScope, tagsFor } from '../../../src/service/access.ts'
import { ServiceError } from '../../../src/service/errors.ts'
import { PawlError } from '../../../src/session/errors.ts'
import { bodyOf, queryOf } from '../../../src/service/input.ts'
import { problemOf, refusal, statusOf } from '../../../src/service/problem.ts'
import { messageId, sessionId } from '../../../src/service/schemas.ts'
import { codeOf } from '../../support/codes.ts'

describe('an error', () => {
  it('every public error class has an HTTP status, or is listed as a bug', () => {
    const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8')
    const classes = new Set([...page.matchAll(/^\| `[a-z_]+` \| `([A-Z]\w+)` \|/gm)].map(([, name = '']) => name))
    expect(classes.size).toBeGreaterThan(15)
    const bugs = [...classes].filter((name) => statusOf(Object.assign(new PawlError('some_code', ''), { name })) === 500)
    // StoreError's codes and ServiceError's instances have their own.
    const withOwn = ['StoreError', 'ServiceError']
    const elsewhere = [
      'DeclarationError',
      'ToolError',
      'ModelError',
      'WorkerError',
      'StackError',
      'CrashTestError',
      'CliError',
      'ChatError',
    ]
    expect(bugs.toSorted()).toEqual([...withOwn, ...elsewhere].toSorted())
  })

  it.each([
    [new InvalidMessageError('empty_message', ''), 400],
    [new InvalidMessageError('message_too_large', ''), 413],
    [new InvalidMessageError('no_agent', ''), 409],
    [new RequestRefusedError('invalid_target', ''), 400],
    [new RequestRefusedError('call_not_found', ''), 404],
    [new RequestRefusedError('digest_mismatch', ''), 409],
    [new RequestRefusedError('agent_not_served', ''), 503],
    [new SessionNotFoundError('s'), 404],
    [new SessionUnavailableError('s', { what: 'sleeps' }), 503],
    [new StoreError('store_unavailable', ''), 503],
    [new StoreError('session_erased', ''), 410],
    [new StoreError('flush_mismatch', ''), 500],
    [new Error('secret'), 500],
    ['secret', 500],
    [null, 500],
  ])('an error %s has the status %i', (error, status) => {
    expect(statusOf(error)).toBe(status)
  })

  it('an error is reported with its code, and one from outside pawl without any of its details', () => {
    expect(problemOf(new SessionUnavailableError('s', { what: 'sleeps', waitsFor: 'a worker' }))).toMatchObject({
      type: 'urn:pawl:error:session_unavailable',
      title: 'Service Unavailable',
      status: 503,
      waitsFor: 'a worker',
    })
    const told = problemOf(new Error('postgres://user:password@host'))
    expect(told.code).toBe('internal_error')
    expect(JSON.stringify(told)).not.toContain('password')
  })

  it('an error after which a retry may succeed says when to retry', () => {
    expect(refusal(new StoreError('store_unavailable', '')).headers.get('retry-after')).toBe('2')
    expect(refusal(new SessionNotFoundError('s')).headers.get('retry-after')).toBeNull()
    expect(refusal(new SessionNotFoundError('s')).headers.get('content-type')).toBe('application/problem+json')
  })
})

describe('an access', () => {
  const access = { identity: 'user:ann', scopes: ['read'] as const }

  it.each([null, undefined])('an access of %s is refused', (returned) => {
    expect(() => accessOf(returned)).toThrow(expect.objectContaining({ code: 'unauthorized', status: 401 }))
  })

  it.each([
    true,
    {},
    { identity: '', scopes: [] },
    { identity: 'ann', scopes: ['everything'] },
    { ...access, tenant: '' },
    { ...access, tenant: 'acme:' },
    { ...access, tenant: 'a/b' },
    { ...access, tenant: null },
    { ...access, tenant: undefined },
    { ...access, tenantId: 'acme' },
    { ...access, context: [] },
    { ...access, context: { much: 'x'.repeat(17_000) } },
  ])('an invalid access grants nothing: %j', (returned) => {
    expect(() => accessOf(returned)).toThrow(expect.objectContaining({ code: 'invalid_access', status: 500 }))
  })

  it('an invalid access has the reason in its cause and hides it from the caller', () => {
    const refused = (returned: unknown): Error => {
      try {
        accessOf(returned)
      } catch (error) {
        return error as Error
      }
      return expect.fail('it was accepted')
    }
    const error = refused({ ...access, tenant: 'ann+1@x.org' })
    expect(error.message).not.toContain('ann')
    expect(error.cause).toMatchObject({ message: expect.stringContaining('1 to 100 of [A-Za-z0-9._@-]') })
  })

  it('a tenant’s access includes its own sessions and those of its parts, and no others', () => {
    const acme = { ...access, tenant: 'acme' }
    expect(['acme:1', 'acme:ann:1'].map((id) => isInScope(acme, id))).toEqual([true, true])
    expect(['acme', 'acmex:1', 'ACME:1', 'globex:acme:1', ''].map((id) => isInScope(acme, id))).toEqual(Array(5).fill(false))
    expect(isInScope(access, 'anything')).toBe(true)
  })

  it('a tenant’s access tags the sessions that it starts, and no caller can set such a tag', () => {
    expect(tagsFor({ ...access, tenant: 'acme' }, ['vip'])).toEqual(['vip', 'tenant:acme'])
    expect(tagsFor({ ...access, tenant: 'acme' }, undefined)).toEqual(['tenant:acme'])
    expect(tagsFor(access, undefined)).toBeUndefined()
    expect(() => tagsFor({ ...access, tenant: 'acme' }, ['tenant:globex'])).toThrow(expect.objectContaining({ code: 'invalid_input' }))
  })

  it('an access overrides the members of the context that it names', () => {
    const forced = { ...access, context: { tenantId: 'acme' } }
    expect(contextFor(forced, { tenantId: 'globex', user: 'ann' })).toEqual({ tenantId: 'acme', user: 'ann' })
    expect(contextFor(forced, undefined)).toEqual({ tenantId: 'acme' })
    expect(() => contextFor(forced, ['globex'])).toThrow(expect.objectContaining({ code: 'invalid_input' }))
    expect(contextFor(access, 'as it is')).toBe('as it is')
  })
})

describe('a request', () => {
  const members = z.strictObject({
    limit: z.int().optional(),
    paused: z.boolean().optional(),
    tags: z.array(z.string()).optional(),
    agent: z.string().optional(),
  })
  const read = (query: string): unknown => queryOf(new URLSearchParams(query), members)

  it('the texts of a query are converted to the types in the schema', () => {
    expect(read('limit=5&paused=true&tags=a&tags=b&agent=7')).toEqual({ limit: 5, paused: true, tags: ['a', 'b'], agent: '7' })
    expect(read('tags=a')).toEqual({ tags: ['a'] })
  })

  it('only query values that look like numbers or booleans are converted', () => {
    expect(read('limit=0x10&paused=1')).toEqual({ limit: '0x10', paused: '1' })
    expect(read('limit=')).toEqual({ limit: '' })
  })

  it('a request that names one parameter twice is refused', () => {
    expect(() => read('limit=1&limit=2')).toThrow(expect.objectContaining({ code: 'invalid_input' }))
  })

  it('the query of a request cannot affect prototypes', () => {
    expect(Object.getPrototypeOf(read('__proto__=x'))).toBe(Object.prototype)
  })

  const post = (
    body: string | Uint8Array | ReadableStream,
    headers: Record<string, string> = { 'content-type': 'application/json' },
  ): Request => new Request('http://host/', { method: 'POST', body, headers, duplex: 'half' } as RequestInit)

  it('the body of a request is JSON, or empty', async () => {
    expect(await bodyOf(post('{"a":1}'), 1_000)).toEqual({ a: 1 })
    expect(await bodyOf(post('{"a":1}', { 'content-type': 'application/json; charset=utf-8' }), 1_000)).toEqual({ a: 1 })
    expect(await bodyOf(new Request('http://host/', { method: 'POST' }), 1_000)).toEqual({})
  })

  it.each([
    ['{"a":', undefined, 'invalid_json'],
    ['[1', undefined, 'invalid_json'],
    [new Uint8Array([0x22, 0xff, 0x22]), undefined, 'invalid_json'],
    ['['.repeat(900) + ']'.repeat(900), undefined, 'invalid_json'],
    ['a=1', { 'content-type': 'application/x-www-form-urlencoded' }, 'unsupported_media_type'],
    ['{}', { 'content-type': 'text/plain' }, 'unsupported_media_type'],
    [`"${'x'.repeat(2_000)}"`, undefined, 'body_too_large'],
  ])('a request %j with %j is refused as %s', async (body, headers, code) => {
    expect(await codeOf(bodyOf(post(body, headers ?? undefined), 1_900))).toBe(code)
  })

  it('a request that does not declare its size is not read beyond the limit', async () => {
    let sent = 0
    const endless = new ReadableStream<Uint8Array>({ pull: (to) => to.enqueue(new Uint8Array((sent++, 1_000))) }, { highWaterMark: 0 })
    expect(await codeOf(bodyOf(post(endless), 10_000))).toBe('body_too_large')
    expect(sent).toBeLessThan(15)
  })

  it('a request whose body was read by someone else is a mistake of the server, not of its client', async () => {
    const read = post('{"a":1}')
    await read.json()
    expect(await codeOf(bodyOf(read, 1_000))).toBe('body_consumed')
    const locked = post('{"a":1}')
    locked.body?.getReader()
    expect(await codeOf(bodyOf(locked, 1_000))).toBe('body_consumed')
  })

  it.each(['.', '..'])('a request cannot give anything the id %s, which no address could carry', (id) => {
    for (const schema of [sessionId, messageId]) expect(schema.safeParse(id).success).toBe(false)
  })

  it.each(['...', '.a', '..a', 'a..', 'a/../b', 'acme:..', '...a', '-', '/'])(
    'a request can give a session and a message the id %s',
    (id) => {
      for (const schema of [sessionId, messageId]) expect(schema.safeParse(id).success).toBe(true)
      expect(decodeURIComponent(new URL(`http://host/v1/sessions/${encodeURIComponent(id)}/state`).pathname.split('/')[3] ?? '')).toBe(id)
    },
  )

  it('a request that breaks off is refused', async () => {
    const broken = new ReadableStream<Uint8Array>({ pull: (to) => to.error(new ServiceError('gone', 400, '')) })
    expect(await codeOf(bodyOf(post(broken), 10_000))).toBe('invalid_json')
  })
})
