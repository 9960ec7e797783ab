// Tools of AI SDK 6 and 7 as tools of pawl: what each of their members does, and what is refused.
import { google as googleOf6 } from '@ai-sdk/google'
import { openai as openaiOf6 } from '@ai-sdk/openai'
import { toStandardJsonSchema } from '@valibot/to-json-schema'
import * as ai6 from 'ai'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import * as ai7 from '../../ai-sdk-7/ai.ts'
import { google as googleOf7 } from '../../ai-sdk-7/google.ts'
import { openai as openaiOf7 } from '../../ai-sdk-7/openai.ts'
import { DeclarationError, ToolError } from '../../../src/agent/errors.ts'
import type { ApprovalContext, Tool, ToolContext } from '../../../src/agent/tool.ts'
import { parseInput } from '../../../src/jobs/tool-call/resolve.ts'
import { isBlocks } from '../../../src/session/transcript/results.ts'
import type { Json } from '../../../src/session/json.ts'
import { fromAiSdk } from '../../../src/tools/index.ts'
import { imageBlock } from '../../support/images.ts'

type Options = Parameters<typeof fromAiSdk>[1]

/** Converts one tool, as JavaScript would. */
function one(tool: object, options: { effect?: unknown; [option: string]: unknown } = {}): Tool {
  const { effect = 'read', ...more } = options
  const [converted] = fromAiSdk({ it: tool } as never, { effects: { it: effect }, ...more } as unknown as Options)
  return converted ?? expect.unreachable('no tool')
}

function refusalOf(convert: () => unknown): { code: string; message: string } {
  try {
    convert()
  } catch (error) {
    expect(error).toBeInstanceOf(DeclarationError)
    return error as DeclarationError
  }
  return expect.unreachable('it was accepted')
}

interface Seen {
  progress: Json[]
  warnings: string[]
}

function contextFor(more: Partial<ToolContext> = {}): ToolContext & { seen: Seen } {
  const seen: Seen = { progress: [], warnings: [] }
  const progress = (value: Json): void => {
    if (JSON.stringify(value).length > 16_000) throw new TypeError('too large')
    seen.progress.push(value)
  }
  const log = { debug: vi.fn(), info: vi.fn(), error: vi.fn(), warn: (_: object, text = '') => seen.warnings.push(text) }
  const context = { tenant: 'acme' }
  const ctx = {
    sessionId: 's-1',
    callId: 't_1_2_0',
    context,
    signal: new AbortController().signal,
    progress,
    log,
    idempotencyKey: 'k',
    ...more,
  }
  return Object.assign(ctx as unknown as ToolContext, { seen })
}

const run = (tool: Tool, input: unknown, ctx = contextFor()): Promise<unknown> => Promise.resolve(tool.execute?.(input, ctx))
const needOf = (tool: Tool, input: unknown, ctx: ApprovalContext = contextFor()) => tool.approval?.needed(input, ctx)
const shown = (toModelOutput: (options: never) => unknown, output: unknown = 'out', ctx = contextFor()) =>
  one({ description: 'Looks.', inputSchema: z.object({}), execute: () => output, toModelOutput }).toModel?.(output, ctx, { a: 1 })

function warnings(): string[] {
  const emitted: string[] = []
  const spy = vi.spyOn(process, 'emitWarning').mockImplementation((text) => void emitted.push(String(text)))
  onTestFinished(() => spy.mockRestore())
  return emitted
}

const PNG = imageBlock()
const PNG_DATA = PNG.source.type === 'base64' ? PNG.source.data : expect.unreachable()

describe.each([
  ['6', ai6 as typeof ai6 | typeof ai7, [googleOf6.tools.googleSearch({}), openaiOf6.tools.webSearch({})]],
  ['7', ai7, [googleOf7.tools.googleSearch({}), openaiOf7.tools.webSearch({})]],
] as const)('a tool of AI SDK %s', (version, sdk, ofProviders) => {
  const ai = sdk as typeof ai6
  const about = (what: string): string => `a tool of AI SDK ${version} ${what}`
  const inputSchema = z.object({ id: z.string() })

  it.each<[string, unknown]>([
    ['zod', z.object({ id: z.string() })],
    ['arktype', type({ id: 'string' })],
    ['valibot', toStandardJsonSchema(v.object({ id: v.string() }))],
    ['zodSchema()', ai.zodSchema(z.object({ id: z.string() }))],
    ['asSchema()', ai.asSchema(z.object({ id: z.string() }))],
    ['jsonSchema()', ai.jsonSchema({ type: 'object', properties: { id: { type: 'string' } }, required: ['id'] })],
    [
      'a JSON Schema that is made late',
      ai.jsonSchema(() => ({ type: 'object', properties: { id: { type: 'string' } }, required: ['id'] })),
    ],
    ['a function that returns a schema', () => ai.zodSchema(z.object({ id: z.string() }))],
    ['a function that returns a zod schema', () => z.object({ id: z.string() })],
  ])(about('has an input schema of %s, which its arguments must match'), async (_, schema) => {
    const tool = one(ai.tool({ description: 'Looks.', inputSchema: schema as never, execute: async (input: { id: string }) => input.id }))
    expect(tool.inputSchema).toMatchObject({ type: 'object', properties: { id: { type: 'string' } }, required: ['id'] })
    expect(await parseInput(tool, { id: 'A7' })).toEqual({ input: { id: 'A7' } })
    expect(await parseInput(tool, { id: 7 })).toMatchObject({ problem: expect.stringContaining('id') })
    expect(await run(tool, { id: 'A7' })).toBe('A7')
  })

  it(about('checks its arguments with the validate of its own schema, which may change them'), async () => {
    const schema = ai.jsonSchema<{ n: number }>(
      { type: 'object', properties: { n: { type: 'string' } } },
      {
        validate: (value) => {
          const n = Number((value as { n: string }).n)
          return Number.isNaN(n) ? { success: false, error: new Error('n is not a number') } : { success: true, value: { n } }
        },
      },
    )
    const tool = one(ai.tool({ description: 'Looks.', inputSchema: schema, execute: async ({ n }) => n + 1 }))
    expect(await parseInput(tool, { n: '7' })).toEqual({ input: { n: 7 } })
    expect(await parseInput(tool, { n: 'x' })).toMatchObject({ problem: expect.stringContaining('n is not a number') })
  })

  it(about('with a JSON Schema alone refuses arguments only for what JSON Schema itself refuses'), async () => {
    const accepts = async (schema: object, input: Json) => {
      const inputSchema = ai.jsonSchema({ type: 'object', ...schema } as never)
      return 'input' in (await parseInput(one(ai.tool({ description: 'L', inputSchema, execute: async () => 1 })), input))
    }
    expect(await accepts({ properties: { to: { type: 'string', format: 'email' } } }, { to: 'no address' })).toBe(true)
    expect(await accepts({ properties: { format: { type: 'string' } } }, { format: 7 })).toBe(false)
    expect(await accepts({ properties: { a: { type: 'string' } } }, { b: 1 })).toBe(true)
    expect(await accepts({ additionalProperties: false }, { b: 1 })).toBe(false)
    // A keyword that zod cannot read.
    expect(await accepts({ properties: { a: { not: { type: 'string' } } } }, { a: 'x' })).toBe(true)
  })

  it(about('leaves the arguments as they are, without the defaults of its JSON Schema'), async () => {
    const inputSchema = ai.jsonSchema({ type: 'object', properties: { a: { type: 'string', default: 'x' } } })
    const tool = one(ai.tool({ description: 'L', inputSchema, execute: async () => 1 }))
    expect(await parseInput(tool, { b: 1 })).toEqual({ input: { b: 1 } })
  })

  it(about('gets the call, and no messages'), async () => {
    const ctx = contextFor()
    const seen: object[] = []
    const tool = one(
      ai.tool({
        description: 'Looks.',
        inputSchema,
        execute: async (_: { id: string }, options: object) => {
          seen.push(options)
          return 1
        },
      }),
    )
    await run(tool, { id: 'A7' }, ctx)
    expect(seen).toEqual([
      {
        toolCallId: 's-1:t_1_2_0',
        messages: [],
        abortSignal: ctx.signal,
        context: { tenant: 'acme' },
        experimental_context: { tenant: 'acme' },
      },
    ])
  })

  it(about('gets the context that the option `context` makes for it'), async () => {
    const make = (ctx: ToolContext, name: string) => ({ key: ctx.idempotencyKey, name })
    const tool = one(
      ai.tool({
        description: 'Looks.',
        inputSchema,
        execute: async (_: { id: string }, options: object) => options,
      }),
      { context: make },
    )
    expect(await run(tool, { id: 'A7' })).toMatchObject({
      context: { key: 'k', name: 'it' },
      experimental_context: { key: 'k', name: 'it' },
    })
    const broken = one(ai.tool({ description: 'L', inputSchema, execute: async () => 1 }), {
      context: () => {
        throw new Error('no pool')
      },
    })
    await expect(run(broken, { id: 'A7' })).rejects.toMatchObject({ name: 'ToolError', code: 'invalid_tool_context', happened: false })
  })

  it(about('may use `this`'), async () => {
    const tool = {
      ...ai.tool({ description: 'L', inputSchema, execute: async () => 1 }),
      answer: 42,
      execute(this: { answer: number }) {
        return this.answer
      },
    }
    warnings()
    expect(await run(one(tool), { id: 'A7' })).toBe(42)
  })

  it(about('that yields reports each value as progress, and the last one is its result'), async () => {
    const ctx = contextFor()
    const tool = one(
      ai.tool({
        description: 'Counts.',
        inputSchema,
        async *execute() {
          yield { done: 1 }
          yield { done: 2 }
        },
      }),
    )
    expect(await run(tool, { id: 'A7' }, ctx)).toEqual({ done: 2 })
    expect(ctx.seen.progress).toEqual([{ done: 1 }, { done: 2 }])
  })

  it(about('that yields more than progress may hold has all of its result'), async () => {
    const ctx = contextFor()
    async function* execute() {
      yield 'a'
      yield 'b'.repeat(20_000)
      yield 'c'.repeat(20_000)
    }
    const tool = one(ai.tool({ description: 'Writes.', inputSchema, execute }))
    expect(await run(tool, { id: 'A7' }, ctx)).toBe('c'.repeat(20_000))
    expect(ctx.seen).toEqual({ progress: ['a'], warnings: ['a preliminary result of the tool is not shown as progress'] })
  })

  it(about('that yields nothing has no result, and one that throws fails'), async () => {
    async function* nothing() {}
    async function* throwing() {
      yield 1
      throw new Error('broken')
    }
    expect(await run(one({ description: 'L', inputSchema, execute: nothing }), {})).toBeUndefined()
    await expect(run(one({ description: 'L', inputSchema, execute: throwing }), {})).rejects.toThrow('broken')
  })

  it(about('without `execute` is answered by a client'), () => {
    const tool = one(ai.tool({ description: 'Asks.', inputSchema, outputSchema: z.object({ ok: z.boolean() }) }), { effect: 'external' })
    expect(tool.client).toEqual({})
    expect(tool.execute).toBeUndefined()
    expect(tool.output).toBeDefined()
    // The AI SDK does not check what a body returns.
    const outputSchema = z.object({ ok: z.boolean() })
    const executed = ai.tool({ description: 'L', inputSchema, outputSchema, execute: async () => ({ ok: true }) })
    expect(one(executed).output).toBeUndefined()
    expect(one(executed, { effect: { effect: 'read', output: outputSchema } }).output).toBe(outputSchema)
  })

  it(about('may be dynamic'), async () => {
    const tool = ai.dynamicTool({ description: 'Looks.', inputSchema: z.object({ id: z.string() }), execute: async (input) => input })
    expect(await run(one(tool), { id: 'A7' })).toEqual({ id: 'A7' })
  })

  it(about('needs approval as it says'), async () => {
    const tool = (needsApproval: unknown) =>
      one(ai.tool({ description: 'Pays.', inputSchema, needsApproval: needsApproval as boolean, execute: async () => 1 }), {
        effect: 'external',
      })
    expect(await needOf(tool(true), {})).toBe(true)
    expect(tool(false).approval).toBeUndefined()
    const seen: unknown[] = []
    const byInput = tool(async ({ id }: { id: string }, options: object) => {
      seen.push(options)
      return id === 'A7'
    })
    expect(await needOf(byInput, { id: 'A7' })).toBe(true)
    expect(await needOf(byInput, { id: 'B' })).toBe(false)
    const context = { tenant: 'acme' }
    expect(seen[0]).toEqual({ toolCallId: 's-1:t_1_2_0', messages: [], context, experimental_context: context })
  })

  it(about('needs approval as `toolApproval` says, rather than the tool itself'), async () => {
    const tool = ai.tool({ description: 'Pays.', inputSchema, needsApproval: true, execute: async () => 1 })
    const by = (toolApproval: unknown) => needOf(one(tool, { effect: 'external', toolApproval }), { id: 'A7' })
    expect(await by({ it: 'approved' })).toBeUndefined()
    expect(await by({ it: { type: 'not-applicable' } })).toBeUndefined()
    expect(await by({ it: 'user-approval' })).toBe(true)
    expect(await by({ it: { type: 'user-approval', reason: 'too much' } })).toBe('too much')
    expect(await by({ it: 'denied' })).toEqual({ deny: 'toolApproval denies it.' })
    expect(await by({ it: () => ({ type: 'denied', reason: 'closed' }) })).toEqual({ deny: 'closed' })
    expect(await by({ it: async () => undefined })).toBe(false)
    expect(await by({})).toBe(true)
    expect(await by({ it: undefined })).toBe(true)
    const seen: unknown[] = []
    expect(await by({ it: (...all: unknown[]) => (seen.push(all), 'user-approval') })).toBe(true)
    const context = { tenant: 'acme' }
    expect(seen).toEqual([[{ id: 'A7' }, { toolCallId: 's-1:t_1_2_0', messages: [], toolContext: context, runtimeContext: context }]])
  })

  it(about('needs approval as one function for all tools says'), async () => {
    const tool = ai.dynamicTool({ description: 'Pays.', inputSchema, needsApproval: true, execute: async () => 1 })
    const seen: unknown[] = []
    const toolApproval = (call: unknown) => void seen.push(call)
    expect(await needOf(one(tool, { toolApproval }), { id: 'A7' })).toBe(false)
    const context = { tenant: 'acme' }
    expect(seen).toEqual([
      {
        toolCall: { type: 'tool-call', toolCallId: 's-1:t_1_2_0', toolName: 'it', input: { id: 'A7' }, dynamic: true },
        tools: { it: tool },
        toolsContext: { it: context },
        messages: [],
        runtimeContext: context,
      },
    ])
  })

  it(about('has the approval that `effects` gives it before any other'), async () => {
    const tool = ai.tool({ description: 'Pays.', inputSchema, needsApproval: true, execute: async () => 1 })
    expect(one(tool, { effect: { effect: 'external', approval: false }, toolApproval: { it: 'denied' } }).approval).toBeUndefined()
    expect(one(tool, { effect: { effect: 'external', approvalTimeout: '8h', onExpiry: 'error' } }).approval).toMatchObject({
      expiresMs: 28_800_000,
      onExpiry: 'error',
    })
  })

  it(about('has the options of any tool of pawl'), async () => {
    const verify = () => ({ happened: false as const })
    const effect = {
      effect: 'external',
      verify,
      effectId: () => 'e-1',
      timeout: '20s',
      idempotency: 'session',
      toModel: () => 'seen',
      description: 'Own.',
    }
    const toModelOutput = () => ({ type: 'text', value: 'not this' }) as const
    const tool = one(ai.tool({ description: 'Pays.', inputSchema, execute: async () => 1, toModelOutput }), { effect })
    expect(tool).toMatchObject({ effect: 'external', verify, timeoutMs: 20_000, idempotency: 'session', description: 'Own.' })
    expect(tool.effectId?.(1)).toBe('e-1')
    expect(await tool.toModel?.(1, contextFor(), {})).toBe('seen')
  })

  it(about('shows its examples to the model'), () => {
    const inputExamples = [{ input: { id: 'A7' } }, { input: { id: 'B2' } }]
    const tool = one(ai.tool({ description: 'Looks.', inputSchema, inputExamples, execute: async () => 1 }))
    expect(tool.description).toBe('Looks.\n\nInput Examples:\n{"id":"A7"}\n{"id":"B2"}')
  })

  it(about('says in a warning what of it pawl does not support'), () => {
    const emitted = warnings()
    const tool = { description: 'Looks.', inputSchema, title: 'Look', metadata: { from: 'x' }, strict: false, execute: async () => 1 }
    one(ai.tool(tool))
    expect(emitted).toEqual([])
    one(ai.tool({ ...tool, strict: true, providerOptions: { openai: { a: 1 } } }))
    one({ ...tool, ofTheFuture: 1 })
    expect(emitted).toEqual([
      'pawl: Tool "it": pawl ignores strict, providerOptions, which it does not support in AI SDK tools.',
      'pawl: Tool "it": pawl ignores ofTheFuture, which it does not support in AI SDK tools.',
    ])
  })

  it.each(ofProviders.map((tool) => [(tool as { id?: string }).id, tool] as const))(about('that is %s is refused'), (id, tool) => {
    const { code, message } = refusalOf(() => one(tool))
    expect(code).toBe('invalid_tool')
    expect(message).toContain(`Tool "it" is defined by a model provider (${id})`)
    expect(message).toContain('declare a tool() with an inputSchema and an execute of your own')
  })

  it.each<[string, object, string, string]>([
    ['a type of a later release', { type: 'remote' }, 'invalid_tool', 'the type "remote"'],
    ['a listener for its input', { onInputStart: () => undefined }, 'invalid_tool', 'onInputStart'],
    ['a listener for its arguments', { onInputAvailable: () => undefined }, 'invalid_tool', 'onInputAvailable'],
    ['tools that it calls itself', { experimental_toolCaller: {} }, 'invalid_tool', 'experimental_toolCaller'],
    ['no description', { description: undefined }, 'invalid_tool', "effects: { it: { effect: …, description: '…' } }"],
    ['a description that depends on its context', { description: () => 'Looks.' }, 'invalid_tool', 'depends on its context'],
    ['a body that is not a function', { execute: 'client' }, 'invalid_tool', 'execute'],
    ['no input schema', { inputSchema: undefined }, 'no_json_schema', 'is not a schema'],
    ['an input that is not an object', { inputSchema: z.string() }, 'no_json_schema', 'is not an object'],
    ['a JSON Schema of an array', { inputSchema: ai6.jsonSchema({ type: 'array' }) }, 'no_json_schema', 'is not an object'],
    ['a promised JSON Schema', { inputSchema: ai6.jsonSchema(async () => ({ type: 'object' })) }, 'no_json_schema', 'is a promise'],
    [
      'a schema with a type that JSON does not have',
      { inputSchema: ai6.zodSchema(z.object({ at: z.date() })) },
      'no_json_schema',
      'no JSON form',
    ],
    ['a schema that cannot be made', { inputSchema: () => JSON.parse('{') }, 'no_json_schema', 'no JSON form'],
    ['a schema without a JSON form', { inputSchema: v.object({}) }, 'no_json_schema', 'toStandardJsonSchema()'],
  ])(about('with %s is refused'), (_, change, code, text) => {
    const refusal = refusalOf(() => one({ ...ai.tool({ description: 'Looks.', inputSchema, execute: async () => 1 }), ...change }))
    expect(refusal.code).toBe(code)
    expect(refusal.message).toContain(text)
  })
})

describe('what toModelOutput returns', () => {
  it.each<[string, unknown, unknown]>([
    ['text', { type: 'text', value: 'fine' }, 'fine'],
    ['JSON', { type: 'json', value: { a: 1 } }, '{"a":1}'],
    ['the text of an error', { type: 'error-text', value: 'no such order' }, 'Error: no such order'],
    ['the JSON of an error', { type: 'error-json', value: { code: 7 } }, 'Error: {"code":7}'],
    ['a denial', { type: 'execution-denied', reason: 'closed' }, 'The call was denied and was not executed. Reason: closed'],
    ['no content', { type: 'content', value: [] }, ''],
  ])('what toModelOutput returns as %s is text for the model', async (_, output, content) => {
    expect(await shown(() => output)).toBe(content)
    expect(await shown(async () => output)).toBe(content)
  })

  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG_DATA } }
  const atUrl = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
  const bytes = Uint8Array.from(Buffer.from(PNG_DATA, 'base64'))
  const text = (value: string) => ({ type: 'text', text: value })
  const omitted = (what: string) => text(`[Left out: ${what}. Only text, images and PDFs can be shown here.]`)
  const pdf = (about: object = {}) => ({
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
    ...about,
  })
  it.each<[string, object, object]>([
    ['text', { type: 'text', text: 'a' }, text('a')],
    ['media of AI SDK 5', { type: 'media', data: PNG_DATA, mediaType: 'image/png' }, image],
    ['an image in base64', { type: 'image-data', data: PNG_DATA, mediaType: 'image/png' }, image],
    ['an image file', { type: 'file-data', data: PNG_DATA, mediaType: 'image/png' }, image],
    ['an image of an unnamed type', { type: 'file', data: { type: 'data', data: bytes }, mediaType: 'image/*' }, image],
    ['an image in an ArrayBuffer', { type: 'file', data: { type: 'data', data: bytes.buffer }, mediaType: 'image' }, image],
    ['a tagged image in base64', { type: 'file', data: { type: 'data', data: PNG_DATA }, mediaType: 'image/png' }, image],
    ['an image in a data URL', { type: 'image-url', url: `data:image/png;base64,${PNG_DATA}` }, image],
    ['the URL of an image', { type: 'image-url', url: 'https://example.com/a.png' }, atUrl],
    ['the URL of an image file', { type: 'file-url', url: 'https://example.com/a.png', mediaType: 'image/png' }, atUrl],
    [
      'the tagged URL of an image',
      { type: 'file', data: { type: 'url', url: new URL('https://example.com/a.png') }, mediaType: 'image' },
      atUrl,
    ],
    ['the text of a file', { type: 'file', data: { type: 'text', text: 'a,b' }, mediaType: 'text/csv' }, text('a,b')],
    ['a text file', { type: 'file-data', data: Buffer.from('a,b').toString('base64'), mediaType: 'text/csv' }, text('a,b')],
    ['a PDF', { type: 'file-data', data: 'JVBERi0=', mediaType: 'application/pdf', filename: 'a.pdf' }, pdf({ title: 'a.pdf' })],
    ['a PDF of an unnamed type', { type: 'file', data: { type: 'data', data: 'JVBERi0=' }, mediaType: 'application/octet-stream' }, pdf()],
    [
      'the URL of a PDF',
      { type: 'file', data: { type: 'url', url: new URL('https://example.com/a.pdf') }, mediaType: 'application/pdf' },
      { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } },
    ],
    [
      'another file',
      { type: 'file-data', data: 'UEsDBA==', mediaType: 'application/zip', filename: 'a.zip' },
      omitted('application/zip "a.zip"'),
    ],
    ['an image that no model reads', { type: 'image-data', data: 'PHN2Zz4=', mediaType: 'image/svg+xml' }, omitted('image/svg+xml')],
    ['the URL of a file', { type: 'file-url', url: 'https://example.com/a' }, omitted('file-url at https://example.com/a')],
    ['the id of a file', { type: 'file-id', fileId: 'file_1' }, omitted('file-id')],
    ['a reference to a file', { type: 'file', data: { type: 'reference', reference: {} }, mediaType: 'image/png' }, omitted('image/png')],
    ['a part of a provider', { type: 'custom', providerOptions: { openai: {} } }, omitted('custom')],
  ])('what toModelOutput returns as content with %s is a block for the model', async (_, part, block) => {
    const ctx = contextFor()
    const content = await shown(() => ({ type: 'content', value: [part] }), 'out', ctx)
    expect(content).toEqual([block])
    expect(isBlocks(content as Json)).toBe(true)
    expect(ctx.seen.warnings).toHaveLength(JSON.stringify(block).includes('Left out') ? 1 : 0)
  })

  it('toModelOutput receives the call, its arguments and its result', async () => {
    expect(await shown((all) => ({ type: 'json', value: all }), { id: 7 })).toBe(
      '{"toolCallId":"s-1:t_1_2_0","input":{"a":1},"output":{"id":7}}',
    )
  })

  it('provider options that toModelOutput returns are not sent, and a warning says so', async () => {
    const ctx = contextFor()
    expect(await shown(() => ({ type: 'text', value: 'a', providerOptions: { anthropic: {} } }), 'out', ctx)).toBe('a')
    expect(ctx.seen.warnings).toEqual(['pawl does not send the providerOptions that toModelOutput returned'])
  })

  it('what toModelOutput returns is refused if it is not an output', async () => {
    await expect(shown(() => 'text')).rejects.toThrow('which pawl does not know')
  })
})

describe('a tool with a contextSchema', () => {
  const tool = ai7.tool({
    description: 'Looks.',
    inputSchema: z.object({}),
    contextSchema: z.object({ tenant: z.string().toUpperCase() }),
    needsApproval: (_, { context }) => context.tenant === 'ACME',
    execute: async (_, { context }) => context.tenant,
  })

  it('a tool with a contextSchema gets the context as its schema returns it', async () => {
    expect(await run(one(tool), {})).toBe('ACME')
    expect(await needOf(one(tool), {})).toBe(true)
    const seen: unknown[] = []
    const toolApproval = {
      it: (_: unknown, { toolContext, runtimeContext }: Record<string, unknown>) => void seen.push(toolContext, runtimeContext),
    }
    await needOf(one(tool, { toolApproval }), {})
    expect(seen).toEqual([{ tenant: 'ACME' }, { tenant: 'acme' }])
  })

  it('a tool with a contextSchema is not entered with a context that does not match', async () => {
    const failure = await run(one(tool, { context: () => ({ tenant: 7 }) }), {}).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ToolError)
    expect(failure).toMatchObject({ code: 'invalid_tool_context', retryable: false, happened: false })
  })
})

describe('the effects', () => {
  const a = ai6.tool({ description: 'A', inputSchema: z.object({ id: z.string() }), execute: async ({ id }) => ({ found: id }) })
  const b = ai7.tool({ description: 'B', inputSchema: z.object({ cents: z.number() }), execute: async ({ cents }) => cents })

  it('the effects must name every tool, which the compiler checks', () => {
    // @ts-expect-error -- b has no effect
    const { code, message } = refusalOf(() => fromAiSdk({ a, b }, { effects: { a: 'read' } }))
    expect(code).toBe('invalid_tool')
    expect(message).toContain('`effects` does not say what "b" does')
    // @ts-expect-error -- none has an effect
    expect(refusalOf(() => fromAiSdk({ a, b }, { effects: {} })).message).toContain('what "a", "b" do')
    // @ts-expect-error -- no effects at all
    expect(refusalOf(() => fromAiSdk({ a, b }, {})).message).toContain('`effects` is required')
    // @ts-expect-error -- not an effect
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: 'write' } })).message).toContain('Tool "a": `effect` must be')
    // @ts-expect-error -- options without an effect
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: { timeout: '5s' } } })).message).toContain('Tool "a": `effect` is required')
  })

  it('the effects name no other tools', () => {
    // @ts-expect-error -- there is no c
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: 'read', c: 'read' } })).message).toContain(
      'There is no tool "c". The tools are "a".',
    )
    // @ts-expect-error -- there is no c
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: 'read' }, toolApproval: { c: 'denied' } })).message).toContain('no tool "c"')
    expect(refusalOf(() => fromAiSdk({ constructor: a }, { effects: {} as never })).message).toContain('"constructor"')
  })

  it('the effects cannot have what the tool itself has, or what its effect does not allow', () => {
    // @ts-expect-error -- the tool has its own body
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: { effect: 'read', execute: 'client' } } })).message).toContain('execute')
    const verify = () => ({ happened: false as const })
    // @ts-expect-error -- a read is never unknown
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: { effect: 'read', verify } } })).message).toContain('verify')
    expect(refusalOf(() => fromAiSdk([a] as never, { effects: {} as never })).message).toContain('must be an object')
    expect(refusalOf(() => fromAiSdk({ a: 'look' } as never, { effects: { a: 'read' } as never })).message).toContain('is not a tool')
    expect(refusalOf(() => fromAiSdk({ a }, { effects: { a: 'read' }, contxt: () => 1 } as never)).message).toContain(
      'did you mean context?',
    )
  })

  it('the effects may be those of tools whose names are known at run time only', () => {
    const some: ai6.ToolSet = { a }
    const others: ai7.ToolSet = { b }
    expect(fromAiSdk(some, { effects: { a: 'read' } })).toHaveLength(1)
    expect(fromAiSdk(others, { effects: { b: { effect: 'external', verify: () => ({ happened: 'unknown' }) } } })).toHaveLength(1)
    expect(refusalOf(() => fromAiSdk(some, { effects: {} })).message).toContain('what "a" does')
  })

  it('the effects know the types of the arguments and of the result', () => {
    const tools = fromAiSdk(
      { a, b },
      {
        effects: {
          a: {
            effect: 'external',
            verify: ({ id }) => ({ happened: true, result: { found: id.toUpperCase() } }),
            effectId: ({ found }) => found.trim(),
            idempotency: ({ id }) => id.trim(),
          },
          b: { effect: 'idempotent', approval: ({ cents }) => cents > 100 && `${cents.toFixed(2)}` },
        },
        toolApproval: { b: ({ cents }) => (cents.toFixed(0) === '1' ? 'denied' : undefined) },
        context: (ctx, tool) => ({ tenant: ctx.context, tool: tool.trim() }),
      },
    )
    expect(tools.map(({ name, effect }) => [name, effect])).toEqual([
      ['a', 'external'],
      ['b', 'idempotent'],
    ])
    fromAiSdk(
      { b },
      // @ts-expect-error -- the result is a number
      { effects: { b: { effect: 'external', verify: () => ({ happened: true, result: 'paid' }) } } },
    )
    const typed = fromAiSdk.withTypes<{ services: { bank: { pay(): string } }; context: { tenant: string } }>()
    typed({ a }, { effects: { a: 'read' }, context: (ctx) => [ctx.context.tenant.trim(), ctx.services.bank.pay()] })
    // @ts-expect-error -- there is no such service
    typed({ a }, { effects: { a: 'read' }, context: (ctx) => ctx.services.bnk })
  })
})
