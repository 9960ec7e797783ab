// How an MCP server's tools become tools of pawl: names, effects, results, errors and options.
import { describe, expect, it } from 'vitest'
import { DeclarationError, ToolError } from '../../../src/agent/errors.ts'
import { effectOf } from '../../../src/tools/mcp/effects.ts'
import { AnswerTooLarge, RedirectRefused, STREAM_ENDED, toolErrorOf } from '../../../src/tools/mcp/errors.ts'
import { type MadeTools, toolsFrom } from '../../../src/tools/mcp/list.ts'
import { entryFor, matches, toolNameOf } from '../../../src/tools/mcp/names.ts'
import { type EffectRule, rulesOf } from '../../../src/tools/mcp/options.ts'
import { contentOf, errorTextOf, resultOf } from '../../../src/tools/mcp/result.ts'
import { pdfBlock } from '../../support/documents.ts'
import { imageBlock } from '../../support/images.ts'

const HTTP = { type: 'http', url: 'http://127.0.0.1:1/mcp' } as const

describe('names of MCP tools', () => {
  it('a tool is named after its server and itself', () => {
    expect(toolNameOf('shop', 'find_order')).toBe('shop__find_order')
  })

  it('a name that providers refuse gets accepted characters and a hash, so that different tools stay apart', () => {
    const names = ['orders/find.by id', 'orders_find.by id', 'x'.repeat(80), 'x'.repeat(81)].map((tool) => toolNameOf('shop', tool))
    for (const name of names) expect(name).toMatch(/^shop__[A-Za-z0-9_-]{1,58}$/)
    expect(new Set(names).size).toBe(names.length)
    expect(toolNameOf('shop', 'x'.repeat(80))).toBe(names[2])
  })

  it('a pattern stands for any characters, and a full name takes precedence over patterns in their order', () => {
    expect(matches('get_*', 'get_refund')).toBe(true)
    expect(matches('get_*', 'forget_refund')).toBe(false)
    expect(matches('*.read', 'orders.read')).toBe(true)
    expect(matches('*.read', 'orders-read')).toBe(false)
    expect(entryFor({ '*': 1, 'get_*': 2, get_refund: 3 }, 'get_refund')).toEqual({ pattern: 'get_refund', value: 3 })
    expect(entryFor({ 'get_*': 2, '*': 1 }, 'get_order')).toEqual({ pattern: 'get_*', value: 2 })
    expect(entryFor({ 'get_*': 2 }, 'constructor')).toBeUndefined()
  })
})

describe('lists of MCP tools', () => {
  const caller = { rules: rulesOf({ name: 'shop', transport: HTTP }), pool: {} as never, onRefused: () => undefined }
  const listing = (prefix: string) =>
    Array.from({ length: 1_000 }, (_, n) => ({ name: `${prefix}_${n}`, inputSchema: { type: 'object' as const } }))

  it('a server that lists other tools each time does not fill the memory of its executor', () => {
    const made: MadeTools = new Map()
    for (let round = 0; round < 25; round++) toolsFrom(listing(`r${round}`), caller, made)
    expect(made.size).toBe(20_000)
    const { tools } = toolsFrom(listing('r24'), caller, made)
    expect(toolsFrom(listing('r24'), caller, made).tools.get('shop__r24_7')).toBe(tools.get('shop__r24_7'))
  })
})

describe('schemas of MCP tools', () => {
  const caller = { rules: rulesOf({ name: 'shop', transport: HTTP }), pool: {} as never, onRefused: () => undefined }
  const good = { name: 'good', inputSchema: { type: 'object', properties: { a: { type: ['string', 'null'], enum: ['x', null] } } } }
  /** What the agent gets of a tool with these arguments. */
  function listed(properties: object, more: object = {}) {
    const { tools, report } = toolsFrom([{ name: 'it', inputSchema: { type: 'object', properties, ...more } }, good], caller, new Map())
    expect(tools.get('shop__good')?.inputSchema).toEqual(good.inputSchema)
    return { schema: tools.get('shop__it')?.inputSchema, why: report.leftOut[0]?.why }
  }

  it.each<[string, object, object?]>([
    ['properties/a/type', { a: { type: 'banana' } }],
    ['properties/a', { a: 'a text' }],
    ['properties/a/items/required', { a: { type: 'array', items: { type: 'object', required: true } } }],
    ['properties/a/anyOf', { a: { anyOf: [] } }],
    ['properties/a/anyOf/1/minimum', { a: { anyOf: [{}, { minimum: '1' }] } }],
    ['properties/a/examples', { a: { type: 'string', examples: 'for example' } }],
    ['$defs/b/enum', { a: { $ref: '#/$defs/b' } }, { $defs: { b: { enum: 'x' } } }],
    ['required', { a: {} }, { required: ['a', 'a'] }],
  ])('a tool whose schema providers refuse is left out, and does not take the others with it: %s', (place, properties, more) => {
    const { schema, why } = listed(properties, more)
    expect(schema).toBeUndefined()
    expect(why).toContain(`its input schema is not a valid JSON Schema: ${place} must `)
  })

  it('a tool whose schema is nested too deep is left out', () => {
    let deep: object = {}
    for (let n = 0; n < 600; n++) deep = { items: deep }
    expect(listed({ a: deep }).why).toContain('nested deeper than 500 levels')
  })

  it.each<[string, object, object]>([
    [
      'a list of which only the first members have a form',
      { type: 'array', items: [{ type: 'string' }, { type: 'array' }], additionalItems: false },
      { type: 'array', prefixItems: [{ type: 'string' }, { type: 'array', items: {} }], items: false },
    ],
    ['a limit that is itself excluded', { minimum: 1, exclusiveMinimum: true, maximum: 9 }, { exclusiveMinimum: 1, maximum: 9 }],
    ['a limit that is itself included', { minimum: 1, exclusiveMinimum: false }, { minimum: 1 }],
    ['a list of anything', { type: 'array', description: 'Any.' }, { type: 'array', description: 'Any.', items: {} }],
    [
      'arguments that are named like keywords',
      { properties: { items: { type: 'array', items: {} } } },
      { properties: { items: { type: 'array', items: {} } } },
    ],
    [
      'values that look like a schema',
      { default: { type: 'array' }, enum: [{ type: 'array' }] },
      { default: { type: 'array' }, enum: [{ type: 'array' }] },
    ],
  ])('the schema of an earlier draft becomes one that providers accept, with the same meaning: %s', (_, given, becomes) => {
    expect(listed({ a: given }).schema).toEqual({ type: 'object', properties: { a: becomes } })
  })
})

describe('effects of MCP tools', () => {
  const tool = (annotations?: { readOnlyHint?: boolean; idempotentHint?: boolean }) => ({ name: 'it', inputSchema: {}, annotations })
  const ruled = (effects: Record<string, EffectRule>, annotations?: Parameters<typeof tool>[0]) => effectOf({ effects }, tool(annotations))

  it('a tool that no rule names is external and needs approval', () => {
    expect(ruled({ other: 'read' }, { readOnlyHint: true })).toEqual({ effect: 'external', rule: 'no rule', options: { approval: true } })
  })

  it('a rule decides the effect, and may have further options', () => {
    expect(ruled({ it: 'idempotent' })).toEqual({ effect: 'idempotent', rule: 'effects: it', options: {} })
    const rule = { effect: 'external', timeout: '5m', onUnknown: 'tell_model' } as const
    expect(ruled({ 'i*': rule })).toEqual({ effect: 'external', rule: 'effects: i*', options: { timeout: '5m', onUnknown: 'tell_model' } })
  })

  it.each([
    [{ readOnlyHint: true }, 'read', 'annotations: readOnlyHint', {}],
    [{ readOnlyHint: false, idempotentHint: true }, 'idempotent', 'annotations: idempotentHint', {}],
    [{ readOnlyHint: false }, 'external', 'annotations: no hint is true', {}],
    [undefined, 'external', 'annotations: none', { approval: true }],
  ] as const)('annotations %j make a tool of a trusted server %s', (annotations, effect, rule, options) => {
    expect(ruled({ '*': 'annotations' }, annotations)).toEqual({ effect, rule, options })
  })
})

describe('results of MCP tools', () => {
  it('the model sees several texts of an MCP result as one', () => {
    expect(
      contentOf(
        resultOf({
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: ' ' },
            { type: 'text', text: 'b' },
          ],
        }),
      ),
    ).toBe('a\nb')
  })

  it('the model sees images, embedded texts and links, and a note in place of other parts', () => {
    const { data } = imageBlock().source as { data: string }
    const content = [
      { type: 'image', data, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'file:///b', text: 'the text' } },
      { type: 'resource_link', uri: 'file:///a', name: 'a' },
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'hologram' },
    ]
    expect(contentOf(resultOf({ content }))).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
      { type: 'text', text: '[Resource: file:///b]\nthe text' },
      { type: 'text', text: '[Resource: a, file:///a]' },
      { type: 'text', text: '[Left out: audio, audio/wav, only text, images and PDFs can be shown here]' },
      { type: 'text', text: '[Left out: hologram, only text, images and PDFs can be shown here]' },
    ])
  })

  it('the model sees an embedded PDF as a document, named as its address ends', () => {
    const { source } = pdfBlock()
    const { data: blob } = source as { data: string }
    const part = { type: 'resource', resource: { uri: 'file:///reports/q3.pdf', mimeType: 'application/pdf', blob } }
    expect(contentOf(resultOf({ content: [part] }))).toEqual([{ ...pdfBlock(), title: 'q3.pdf' }])
    expect(errorTextOf(resultOf({ content: [part] }))).toBe(`[document "q3.pdf", PDF, ${Buffer.from(blob, 'base64').length} bytes]`)
  })

  it('the model sees structured content if an MCP result has no other content', () => {
    expect(contentOf(resultOf({ content: [], structuredContent: { n: 1 } }))).toBe('{"n":1}')
    expect(contentOf(resultOf({ content: [{ type: 'text', text: 'one' }], structuredContent: { n: 1 } }))).toBe('one')
    expect(contentOf({ found: true })).toBe('{"found":true}')
    expect(contentOf('found')).toBe('found')
  })

  it('an error result without a text still says that it is an error', () => {
    expect(errorTextOf(resultOf({ content: [] }))).toBe('The tool reports an error without a message.')
  })
})

describe('failed requests to MCP servers', () => {
  const told = (error: unknown, { hasOutput = false } = {}) => {
    const { code, retryable, happened, message } = toolErrorOf('shop', error, hasOutput)
    return { code, retryable, happened, message }
  }
  const coded = (code: number | string, more: object = {}) => Object.assign(new Error('why'), { code, ...more })

  it.each([-32_601, -32_602, -32_020])('JSON-RPC error %i means that nothing has begun, and another attempt would fail like it', (code) => {
    expect(told(coded(code))).toMatchObject({ code: 'mcp_refused', retryable: false, happened: false })
  })

  it('"invalid parameters" leaves open whether a tool with an output schema has run: its result may be what does not match', () => {
    const invalid = coded(-32_602)
    expect(told(invalid, { hasOutput: true })).toMatchObject({ code: 'mcp_call_failed', retryable: false, happened: undefined })
    expect(told(coded(-32_601), { hasOutput: true })).toMatchObject({ code: 'mcp_refused', happened: false })
  })

  it.each([401, 403, 404, 405, 413, 415, 429])('HTTP status %i means that nothing has begun', (status) => {
    expect(told(coded('CLIENT_HTTP', { status }))).toMatchObject({ code: 'mcp_refused', retryable: status === 429, happened: false })
  })

  it.each(['ECONNREFUSED', 'ENOTFOUND', 'NOT_CONNECTED'])('without a connection (%s), nothing has begun, and pawl retries', (code) => {
    const error = new TypeError('fetch failed', { cause: coded(code) })
    expect(told(error)).toMatchObject({
      code: 'mcp_unavailable',
      retryable: true,
      happened: false,
      message: expect.stringContaining('why'),
    })
  })

  it.each([
    ['another JSON-RPC error', coded(-32_603)],
    ['HTTP status 500', coded('CLIENT_HTTP', { status: 500 })],
    ['a connection that ended', coded('CONNECTION_CLOSED')],
    ['a stream that ended', coded(STREAM_ENDED)],
    ['a reset connection', new TypeError('fetch failed', { cause: coded('ECONNRESET') })],
    ['a network that breaks during the call', new TypeError('fetch failed', { cause: coded('EHOSTUNREACH', { syscall: 'read' }) })],
    ['a thrown text', 'why'],
  ])('%s leaves open whether the call happened, and pawl retries what it may repeat', (_, error) => {
    expect(told(error)).toMatchObject({
      code: 'mcp_call_failed',
      retryable: true,
      happened: undefined,
      message: expect.stringContaining('shop'),
    })
  })

  it('a redirect elsewhere was not followed, so nothing has begun', () => {
    expect(told(new RedirectRefused('it redirects'))).toMatchObject({ code: 'mcp_refused', retryable: false, happened: false })
  })

  it('an answer that is too large, or asks for input, is not requested again', () => {
    expect(told(new AnswerTooLarge(1_000))).toMatchObject({ code: 'mcp_result_too_large', retryable: false, happened: undefined })
    expect(told(coded('UNSUPPORTED_RESULT_TYPE'))).toMatchObject({ code: 'mcp_input_required', retryable: false, happened: undefined })
  })

  it("a server's long text is cut", () => {
    expect(told(new Error('x'.repeat(100_000))).message.length).toBeLessThan(3_000)
  })
})

describe('options of mcp()', () => {
  const refusal = (options: unknown): string => {
    try {
      rulesOf(options)
    } catch (error) {
      expect(error).toBeInstanceOf(DeclarationError)
      expect((error as DeclarationError).code).toBe('invalid_mcp_server')
      return (error as Error).message
    }
    return expect.unreachable('it was accepted')
  }

  it('mcp() needs only a name and a transport', () => {
    expect(rulesOf({ name: 'shop', transport: HTTP })).toMatchObject({
      effects: {},
      allow: ['*'],
      block: [],
      timeoutMs: 60_000,
      listMs: 30_000,
    })
    expect(rulesOf({ name: 'shop', transport: HTTP, effects: 'annotations' }).effects).toEqual({ '*': 'annotations' })
  })

  it.each([
    [{ transport: HTTP }, '`name` is required'],
    [{ name: 'my_shop', transport: HTTP }, '1 to 32 characters of [A-Za-z0-9-]'],
    [{ name: 'shop' }, '`transport` is required'],
    [{ name: 'shop', transport: { type: 'http', url: 'ftp://a' } }, 'an http(s) URL'],
    [{ name: 'shop', transport: { type: 'stdio', command: '' } }, '`transport.command`'],
    [{ name: 'shop', transport: { type: 'stdio', command: 'shop' }, auth: () => 'token' }, 'auth is for servers over HTTP'],
    [{ name: 'shop', transport: { type: 'http', url: 'http://127.0.0.1:1' }, list: 'user' }, "list: 'user' needs auth"],
    [{ name: 'shop', transport: HTTP, auth: 'token' }, '`auth`'],
    [{ name: 'shop', transport: HTTP, maxConnections: 0 }, '`maxConnections`'],
    [{ name: 'shop', transport: HTTP, effects: { a: 'write' } }, "'read', 'idempotent', 'external', 'annotations'"],
    [{ name: 'shop', transport: HTTP, verify: { a: { tool: 'b' } } }, '`verify.a.input` is required'],
    [{ name: 'shop', transport: HTTP, effect: 'read' }, 'did you mean effects?'],
  ])('mcp() refuses %j', (options, message) => {
    expect(refusal(options)).toContain(message)
  })
})

it('an error that a tool threw is kept', () => {
  const error = new ToolError('no', { code: 'own' })
  expect(toolErrorOf('shop', error, false)).toBe(error)
})
