// Declarations: what they fill in, and what they refuse, by code.
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import type { AgentOptions } from '../../../src/agent/agent.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineSlice } from '../../../src/agent/define-slice.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { SliceOptions, SlicesOf } from '../../../src/agent/slice.ts'
import type { ToolOptions } from '../../../src/agent/tool.ts'
import { anthropic } from '../../../src/models/anthropic.ts'
import { PawlError } from '../../../src/session/errors.ts'
import { scripted } from '../../../src/testing/scripted.ts'
import { defineWorker, type WorkerDefinition } from '../../../src/worker/definition.ts'

type AnyTool = ToolOptions<z.ZodType, unknown>

const TOOL: AnyTool = { name: 'look', description: 'Looks.', input: z.object({ id: z.string() }), effect: 'read', execute: () => null }
const AGENT: AgentOptions = { name: 'support', instructions: 'Help.', model: scripted(() => 'hi') }

/** The refusal of a declaration that a JavaScript user may write. */
function refusalOf(declare: () => unknown): { code: string; message: string } {
  try {
    declare()
  } catch (error) {
    expect(error).toBeInstanceOf(PawlError)
    expect(error).toHaveProperty('name', 'DeclarationError')
    const { code, message } = error as PawlError
    return { code, message }
  }
  throw new Error('it was accepted')
}

const toolWith = (change: object) => () => defineTool({ ...TOOL, ...change } as AnyTool)
const agentWith = (change: object) => () => defineAgent({ ...AGENT, ...change } as AgentOptions)

describe('a tool', () => {
  it('a tool is completed with its defaults', () => {
    const tool = defineTool(TOOL)
    expect(tool).toMatchObject({ timeoutMs: 60_000, retry: { maxRetries: 3, baseDelayMs: 500 }, idempotency: 'run', effect: 'read' })
    expect(tool.inputSchema).toMatchObject({ type: 'object', properties: { id: { type: 'string' } }, required: ['id'] })
    expect(tool.schemaDigest).toMatch(/^[0-9a-f]{16}$/)
  })

  it.each<[string, object]>([
    ['a name that models reject', { name: 'look it up' }],
    ['a name of 65 characters', { name: 'x'.repeat(65) }],
    ['no name', { name: undefined }],
    ['no effect', { effect: undefined }],
    ['an unknown effect', { effect: 'write' }],
    ['no description', { description: ' ' }],
    ['no execute', { execute: undefined }],
    ['a verify where nothing is ever unknown', { effect: 'idempotent', verify: () => ({ happened: false }) }],
    ['a key for a read', { idempotency: 'session' }],
    ['a limit for a verify that a read does not have', { verifyTimeout: '5s' }],
    ['retries of a verify that a read does not have', { verifyRetries: 1 }],
    ['a wait before a verify that a read does not have', { settleAfter: 0 }],
    ['a limit for a verify that is missing', { effect: 'external', verifyTimeout: '5s' }],
    ['retries of a verify that is missing', { effect: 'external', verifyRetries: 1 }],
    ['a verify of what a client answers', { effect: 'external', execute: 'client', verify: () => ({ happened: false }) }],
    ['an unknown outcome of what a client answers', { effect: 'external', execute: 'client', onUnknown: 'tell_model' }],
    ['a limit for a verify of what a client answers', { effect: 'external', execute: 'client', verifyTimeout: '5s' }],
    ['retries of what a client answers', { execute: 'client', retry: { maxRetries: 1 } }],
    ['a limit for an approval that is missing', { approvalTimeout: '8h' }],
    ['an expiry of an approval that is missing', { onExpiry: 'error' }],
    ['a timeout of zero', { timeout: 0 }],
    ['an infinite timeout', { timeout: Number.POSITIVE_INFINITY }],
    ['half a retry', { retry: { maxRetries: 0.5 } }],
    ['retries in the past', { retry: { baseDelay: -1 } }],
    ['a concurrency of zero', { concurrency: { max: 0 } }],
    ['a rate without a time', { rate: { max: 5 } }],
    ['a rate over more than a day', { rate: { max: 5, per: '2d' } }],
    ['a key of a limit that is no function', { concurrency: { max: 5, key: 'tenant' } }],
    ['a limit for what a client answers', { execute: 'client', concurrency: { max: 5 } }],
    ['a limit for calls that run as part of a model call', { quick: true, rate: { max: 5, per: '1s' } }],
    ['an unknown option', { timeOut: 5 }],
    ['an unknown retry option', { retry: { delay: 5 } }],
  ])('a tool is refused with %s', (_, change) => {
    const { code, message } = refusalOf(toolWith(change))
    expect(code).toBe('invalid_tool')
    expect(message).toMatch(/[.?]$/)
  })

  it('a tool is refused if its options exclude each other, and the error names the option', () => {
    expect(refusalOf(toolWith({ approvalTimeout: '8h' })).message).toBe(
      'Tool "look": approvalTimeout is for tools with an approval. Add approval, or omit approvalTimeout.',
    )
    expect(refusalOf(toolWith({ execute: 'client', retry: {} })).message).toBe(
      'Tool "look": retry is for calls that a worker executes, but a client answers calls of this tool. Omit retry.',
    )
  })

  it('a tool has its limits in the order in which its calls ask them', () => {
    const key = () => 'acme'
    const { limits } = toolWith({ rate: { max: 100, per: '1m', key }, concurrency: { max: 5 } })()
    expect(limits).toEqual([
      { of: 'concurrency', max: 5 },
      { of: 'rate', max: 100, perMs: 60_000, key },
    ])
    expect(defineTool(TOOL)).not.toHaveProperty('limits')
  })

  it('a tool may have terms of approval while its approval is switched off', () => {
    expect(defineTool({ ...TOOL, approval: false, approvalTimeout: '8h', onExpiry: 'error' })).not.toHaveProperty('approval')
    const needing = defineTool({ ...TOOL, approval: true, approvalTimeout: '8h', onExpiry: 'error' })
    expect(needing.approval).toMatchObject({ expiresMs: 28_800_000, onExpiry: 'error' })
  })

  it.each<[string, unknown]>([
    ['a date', z.object({ when: z.date() })],
    ['a function', z.object({ call: z.function() })],
    ['a bigint', z.object({ cents: z.bigint() })],
    ['no object', z.string()],
    ['one of two objects', z.union([z.object({ a: z.string() }), z.object({ b: z.string() })])],
    ['no schema at all', { type: 'object' }],
    ['nothing', undefined],
  ])('a tool is refused when its input is %s', (_, input) => {
    expect(refusalOf(toolWith({ input })).code).toBe('no_json_schema')
  })

  it('an input whose root refers to a definition shows the model the definition itself, and keeps those that others refer to', () => {
    const Order = z.object({ id: z.string() }).meta({ id: 'Order' })
    const Folder = z.object({ name: z.string(), get folders() { return z.array(Folder) } }).meta({ id: 'Folder' }) // biome-ignore format: one line
    const order = defineTool({ ...TOOL, input: Order }).inputSchema
    expect(order).toMatchObject({ type: 'object', properties: { id: { type: 'string' } }, required: ['id'] })
    expect(order).not.toHaveProperty('$defs')
    const { $defs, ...root } = defineTool({ ...TOOL, input: Folder }).inputSchema
    const ref = { $ref: '#/$defs/Folder' }
    expect(root).toMatchObject({ type: 'object', properties: { folders: { type: 'array', items: ref } } })
    expect($defs).toMatchObject({ Folder: { type: 'object', properties: { folders: { items: ref } } } })
    expect(() => defineAgent({ ...AGENT, output: Order } as AgentOptions)).not.toThrow()
  })

  it('a tool is refused if its input has both alternatives and properties, which providers refuse in every request', () => {
    const union = (keyword: string): unknown => {
      const schema = { type: 'object', properties: { a: {} }, [keyword]: [{ required: ['a'] }] }
      const input = { version: 1, vendor: 'own', validate: (value: unknown) => ({ value }), jsonSchema: { input: () => schema } }
      return { '~standard': input }
    }
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const { code, message } = refusalOf(toolWith({ input: union(keyword) }))
      expect(code).toBe('no_json_schema')
      expect(message).toContain(`has ${keyword} beside its properties, which the APIs of Anthropic and OpenAI refuse in every request`)
    }
  })

  it('a tool accepts an input with transforms, and shows the model its form before them', () => {
    const tool = defineTool({
      ...TOOL,
      input: z.object({ when: z.string().transform((text) => new Date(text)), n: z.number().default(1) }),
    })
    expect(tool.inputSchema).toMatchObject({ properties: { when: { type: 'string' } }, required: ['when'] })
  })

  it('the digest of a tool changes with the meaning of its schema, but not with the order of members', () => {
    const digest = (input: z.ZodType) => defineTool({ ...TOOL, input }).schemaDigest
    expect(digest(z.object({ a: z.string(), b: z.number() }))).toBe(digest(z.object({ b: z.number(), a: z.string() })))
    expect(digest(z.object({ a: z.string() }))).not.toBe(digest(z.object({ a: z.number() })))
    expect(digest(z.object({ a: z.string() }))).not.toBe(digest(z.object({ a: z.string().optional() })))
  })
})

describe('an agent', () => {
  it('an agent is completed with its defaults', () => {
    const agent = defineAgent({ ...AGENT, tools: [defineTool(TOOL)] })
    expect(agent).toMatchObject({ retry: { maxRetries: 3, baseDelayMs: 500 }, limits: { maxTurns: 50 } })
    expect([...agent.tools.keys()]).toEqual(['look'])
    expect(agent.limits).not.toHaveProperty('deadlineMs')
    expect(agent.fallback).toEqual([])
  })

  it('an agent accepts one fallback or a list of them', () => {
    const choose = () => 'claude-b'
    expect(defineAgent({ ...AGENT, fallback: 'claude-a' }).fallback).toEqual(['claude-a'])
    expect(defineAgent({ ...AGENT, fallback: ['claude-a', choose] }).fallback).toEqual(['claude-a', choose])
  })

  it.each<[string, object]>([
    ['a name with a space', { name: 'the support' }],
    ['no name', { name: '' }],
    ['no instructions', { instructions: undefined }],
    ['no model', { model: undefined }],
    ['a model without a name', { model: '' }],
    ['a model that generates nothing', { model: { name: 'm' } }],
    ['a fallback that generates nothing', { fallback: { name: 'm' } }],
    ['a list of fallbacks with nothing in it', { fallback: ['claude', ''] }],
    ['no turns', { limits: { maxTurns: 0 } }],
    ['half a turn', { limits: { maxTurns: 1.5 } }],
    ['a deadline of zero', { limits: { deadline: 0 } }],
    ['a session’s deadline of two years', { sessionLimits: { deadline: '2y' } }],
    ['retries without number', { retry: { maxRetries: Number.NaN } }],
    ['an infinite delay between retries', { retry: { baseDelay: Number.POSITIVE_INFINITY } }],
    ['a tool that defineTool has not seen', { tools: [TOOL] }],
    ['no tool where one should be', { tools: [undefined] }],
    ['an unknown option', { maxTurns: 5 }],
    ['an unknown limit', { limits: { maxEuros: 5 } }],
    ['a negative budget', { limits: { maxUsd: -1 } }],
    ['a budget of zero', { sessionLimits: { maxUsd: 0 } }],
    ['a budget that is not a number', { limits: { maxUsd: Number.NaN } }],
    ['an infinite budget', { limits: { maxUsd: Number.POSITIVE_INFINITY } }],
    ['half a token', { limits: { maxTotalTokens: 0.5 } }],
    ['a negative number of tokens', { sessionLimits: { maxTotalTokens: -1 } }],
    ['a checkpoint every zero turns', { checkpoint: { every: 0 } }],
    ['a checkpoint with a unit in its name', { checkpoint: { everyMs: 60_000 } }],
    ['a checkpoint of two kinds', { checkpoint: { everyTurns: 1, every: '60s' } }],
    ['a checkpoint at no event', { checkpoint: { on: [] } }],
  ])('an agent is refused with %s', (_, change) => {
    const { code, message } = refusalOf(agentWith(change))
    expect(code).toBe('invalid_agent')
    expect(message).toMatch(/[.?]$/)
  })

  it('an agent is refused if its model’s API refuses a property’s name in a tool’s input or in its output', () => {
    const tools = [defineTool({ ...TOOL, input: z.object({ 'filter[id]': z.string() }) })]
    const output = z.object({ ['x'.repeat(65)]: z.string() })
    const claude = { name: 'c', provider: 'anthropic.messages', generate: () => Promise.reject(new Error('no')) }
    for (const model of ['claude-sonnet-5-5', claude]) {
      const { code, message } = refusalOf(agentWith({ model, tools }))
      expect(code).toBe('invalid_agent')
      expect(message).toContain(
        'the input of tool "look" has a property named "filter[id]", which Anthropic\'s API refuses in every request',
      )
      expect(refusalOf(agentWith({ model, output })).message).toContain('the output has a property named')
    }
    expect(refusalOf(agentWith({ model: scripted(() => ''), fallback: 'claude-sonnet-5-5', tools })).code).toBe('invalid_agent')
    expect(() => defineAgent({ ...AGENT, tools, output } as AgentOptions)).not.toThrow()
  })

  const priced = { name: 'my-own', price: { input: 1, output: 2 }, generate: () => Promise.reject() }
  it.each<[string, object]>([
    ['a model', { model: 'my-own', limits: { maxUsd: 1 } }],
    ['a Model', { model: { ...priced, price: undefined }, sessionLimits: { maxUsd: 1 } }],
    ['a Model with an invalid price', { model: { ...priced, price: { input: -1, output: 2 } }, limits: { maxUsd: 1 } }],
    ['a fallback', { model: priced, fallback: ['claude-opus-4-1', 'my-own'], limits: { maxUsd: 1 } }],
  ])('an agent is refused with a budget in US dollars and %s without a price', (_, change) => {
    const { code, message } = refusalOf(agentWith(change))
    expect(code).toBe('no_price')
    expect(message).toMatch(
      /imits.maxUsd needs the price of every model, but the price of "my-own" is unknown. Declare it in US dollars per million tokens \(the option `price: \{ input, output, cacheRead, cacheWrite \}`/,
    )
  })

  it('an agent is accepted with a budget if all prices are known, not needed, or known only at the call', () => {
    expect(defineAgent({ ...AGENT, model: priced, limits: { maxUsd: 0.5, maxTotalTokens: 10 } } as never).limits).toEqual({
      maxTurns: 50,
      maxUsd: 0.5,
      maxTotalTokens: 10,
    })
    expect(defineAgent({ ...AGENT, model: 'claude-opus-4-1', sessionLimits: { maxUsd: 1 } }).sessionLimits).toEqual({ maxUsd: 1 })
    expect(defineAgent({ ...AGENT, model: 'my-own', limits: { maxTotalTokens: 10 } }).limits.maxTotalTokens).toBe(10)
    expect(defineAgent({ ...AGENT, model: () => 'my-own', limits: { maxUsd: 1 } }).limits.maxUsd).toBe(1)
  })

  it('an agent is refused with two tools of the same name', () => {
    const { code, message } = refusalOf(agentWith({ tools: [defineTool(TOOL), defineTool({ ...TOOL, description: 'Looks again.' })] }))
    expect(code).toBe('duplicate_tool')
    expect(message).toContain('"look"')
  })
})

it('if an option is in the wrong place, the refusal names the right one', () => {
  expect(refusalOf(agentWith({ maxTurns: 5 })).message).toBe('Agent "support": There is no option maxTurns: did you mean limits.maxTurns?')
  expect(refusalOf(agentWith({ deadline: '5m' })).message).toContain('did you mean limits.deadline?')
  expect(refusalOf(agentWith({ limits: { maxRetries: 5 } })).message).toContain(
    'no option limits.maxRetries: did you mean retry.maxRetries?',
  )
  expect(refusalOf(toolWith({ maxRetries: 5 })).message).toBe('Tool "look": There is no option maxRetries: did you mean retry.maxRetries?')
})

it('a time limit below a second causes a warning if it is a bare number, which was probably meant as seconds', async () => {
  const warnings: (Error & { code?: string })[] = []
  const note = (warning: Error): void => void warnings.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  expect(defineTool({ ...TOOL, timeout: 20 }).timeoutMs).toBe(20)
  defineAgent({ ...AGENT, limits: { deadline: 90 } })
  defineTool({ ...TOOL, timeout: '20ms' })
  defineTool({ ...TOOL, timeout: 1_000 })
  await vi.waitFor(() => expect(warnings).toHaveLength(2))
  expect(warnings.map(({ message, code }) => [message, code])).toEqual([
    ["pawl: Tool \"look\": `timeout` is 20 ms. Write '20s' if you mean seconds, or '20ms'.", 'PAWL_SHORT_TIME_LIMIT'],
    ["pawl: Agent \"support\": `limits.deadline` is 90 ms. Write '90s' if you mean seconds, or '90ms'.", 'PAWL_SHORT_TIME_LIMIT'],
  ])
})

it('a model of another provider is refused as a Claude model, unless it is behind another base URL', () => {
  for (const model of ['gpt-5.2', 'gemini-3-pro', 'o3-mini']) {
    const { code, message } = refusalOf(agentWith({ model }))
    expect(code).toBe('invalid_agent')
    expect(message).toContain(`"${model}" is not a Claude model. For another provider`)
    expect(message).toContain('aiSdk')
  }
  expect(refusalOf(agentWith({ fallback: ['gpt-5.2'] })).message).toContain('`fallback[0]`')
  expect(() => anthropic('gpt-5.2')).toThrow(/is not a Claude model/)
  expect(anthropic('deepseek-chat', { baseURL: 'https://proxy.example' }).name).toBe('deepseek-chat')
  expect(defineAgent({ ...AGENT, model: 'claude-of-tomorrow' }).model).toBe('claude-of-tomorrow')
})

it('a refusal names the option that was probably meant', () => {
  expect(refusalOf(toolWith({ exceute: () => null })).message).toBe('Tool "look": There is no option exceute: did you mean execute?')
  expect(refusalOf(toolWith({ retry: { maxRetry: 1 } })).message).toBe(
    'Tool "look": There is no option retry.maxRetry: did you mean retry.maxRetries?',
  )
  expect(refusalOf(agentWith({ limits: { maxTurns: 0 } })).message).toBe(
    'Agent "support": `limits.maxTurns` must be an integer from 1, not 0.',
  )
})

it.each([
  ['sometimes', "`checkpoint` must be 'turn', 'tool_call', { everyTurns }, { every } or { on }, not \"sometimes\"."],
  [{ everyTurns: 0 }, '`checkpoint.everyTurns` must be an integer from 1, not 0.'],
  [{ on: [{ type: 'nonsense' }] }, '`checkpoint.on[0].type` must be the type of an event, such as tool_completed, not "nonsense".'],
  [{ on: [{ type: 'checkpoint_made' }] }, '`checkpoint.on[0].type` must be the type of an event'],
  [
    { on: [{ type: 'tool_completed' }, { type: 'milestone_reached', mileston: 'x' }] },
    'There is no option checkpoint.on[1].mileston: did you mean checkpoint.on[1].milestone?',
  ],
  [{ on: [{ type: 'tool_completed', tool: 5 }] }, '`checkpoint.on[0].tool` must be the name of a tool, not 5.'],
  [{ on: [{ type: 'tool_completed', tool: 'lok' }] }, 'checkpoint.on[0] names the tool "lok", which the agent does not have.'],
  [{ on: [{ type: 'emitted', milestone: 'm' }] }, "checkpoint.on[0].milestone is for 'milestone_reached'"],
  [{ on: [{ type: 'milestone_reached', name: 'n' }] }, "checkpoint.on[0].name is for 'emitted'"],
  [{ on: 'tool_completed' }, '`checkpoint.on` must be a list of { type, tool?, milestone?, name? }, not "tool_completed".'],
])('an agent is refused with the checkpoint policy %j', (checkpoint, message) => {
  const refusal = refusalOf(agentWith({ checkpoint }))
  expect(refusal.code).toBe('invalid_agent')
  expect(refusal.message).toContain(`Agent "support": ${message}`)
})

it('an agent makes checkpoints by a policy that can be recorded', () => {
  expect(defineAgent({ ...AGENT, checkpoint: { every: '60s' } }).checkpoint).toEqual({ everyMs: 60_000 })
  expect(defineAgent({ ...AGENT, checkpoint: { everyTurns: 3 } }).checkpoint).toEqual({ everyTurns: 3 })
  expect(defineAgent({ ...AGENT, checkpoint: 'tool_call' }).checkpoint).toBe('tool_call')
  const on = [
    { type: 'milestone_reached', milestone: 'm' },
    { type: 'tool_completed', tool: 'look' },
    { type: 'emitted', name: 'n' },
  ]
  expect(defineAgent({ ...AGENT, tools: [defineTool(TOOL)], checkpoint: { on } }).checkpoint).toEqual({ on })
  expect(defineAgent(AGENT).checkpoint).toBe('turn')
})

describe('a worker', () => {
  it('defineWorker returns the definition that it received', () => {
    const definition = { agents: [defineAgent(AGENT)], services: { shop: 1 } }
    expect(defineWorker(definition)).toBe(definition)
  })

  it.each<[string, unknown, string]>([
    ['without agents', { agents: [] }, 'no_agents'],
    ['with an object that is not an agent', { agents: [{ name: 'x' }] }, 'invalid_worker'],
    ['with nothing in it', {}, 'no_agents'],
    ['with an unknown option', { agents: [defineAgent(AGENT)], service: {} }, 'invalid_worker'],
    ['with two agents of one name', { agents: [defineAgent(AGENT), defineAgent(AGENT)] }, 'duplicate_agent'],
  ])('a worker is refused %s', (_, definition, code) => {
    expect(refusalOf(() => defineWorker(definition as WorkerDefinition)).code).toBe(code)
  })
})

const SLICE: SliceOptions = { name: 'order', version: 1, schema: z.object({ lines: z.number() }), initial: { lines: 0 }, on: {} }
const sliceWith = (change: object) => () => defineSlice({ ...SLICE, ...change } as SliceOptions)

describe('a slice', () => {
  it.each<[string, object, string]>([
    ['no name', { name: undefined }, 'A slice: `name` is required: a letter followed by up to 63 characters of [A-Za-z0-9_-].'],
    [
      'a name that begins like a hidden one',
      { name: '__proto__' },
      'Slice "__proto__": `name` must be a letter followed by up to 63 characters of [A-Za-z0-9_-], not "__proto__".',
    ],
    ['half a version', { version: 1.5 }, 'Slice "order": `version` must be an integer from 1, not 1.5.'],
    [
      'an invalid schema',
      { schema: {} },
      'Slice "order": `schema` must be a schema of zod, or of another library that implements Standard Schema, not {}.',
    ],
    [
      'an unknown event',
      { on: { tool_complete: () => null } },
      'Slice "order": There is no option on.tool_complete: did you mean on.tool_completed?',
    ],
    [
      'an invalid reducer',
      { on: { emitted: 5 } },
      'Slice "order": `on.emitted` must be a function of the value and the event that returns the next value, not 5.',
    ],
    ['no initial value', { initial: undefined }, 'Slice "order": `initial` is required: the value before the first event.'],
  ])('a slice is refused with %s', (_, change, said) => {
    expect(refusalOf(sliceWith(change))).toEqual({ code: 'invalid_slice', message: said })
  })

  it.each<[string, object]>([
    ['does not fit its schema', { initial: { lines: 'none' } }],
    ['its schema does not read back from JSON', { schema: z.object({ at: z.date() }), initial: { at: new Date(0) } }],
    ['its schema cannot check at once', { schema: z.object({ lines: z.number().refine(async () => Promise.resolve(true)) }) }],
  ])('a slice is refused with an initial value that %s', (_, change) => {
    const { code, message } = refusalOf(sliceWith(change))
    expect(code).toBe('invalid_slice')
    expect(message).toMatch(
      /cannot read its initial value back from JSON .*\. Pass a value that matches, or a schema for its JSON form\.$/s,
    )
  })

  it('a slice is refused by an agent that has another one of the same name, or if defineSlice did not make it', () => {
    const order = defineSlice(SLICE)
    expect(refusalOf(agentWith({ slices: [order, defineSlice({ ...SLICE, version: 2 })] }))).toEqual({
      code: 'duplicate_slice',
      message: 'Agent "support" has two slices named "order". Rename one.',
    })
    expect(refusalOf(agentWith({ slices: [SLICE] })).message).toBe('Agent "support": slices[0] is not a slice. Create it with defineSlice.')
  })

  it('instructions and tools see the value of a slice with its type', () => {
    const order = defineSlice({ name: 'order', version: 1, schema: z.object({ lines: z.number() }), initial: { lines: 0 }, on: {} })
    const typed = defineTool.withTypes<{ slices: SlicesOf<[typeof order]> }>()
    const tool = typed({ ...TOOL, execute: (_, { slices }) => slices.order.lines + 1 })
    const instructions = (_: unknown, { slices }: { slices: SlicesOf<[typeof order]> }): string => `${slices.order.lines} lines`
    expect(defineAgent({ ...AGENT, name: 'typed', slices: [order], instructions, tools: [tool] }).slices).toEqual([order])
    const { name, model } = AGENT
    // @ts-expect-error -- the agent lacks the slice that its tool needs
    defineAgent({ name, model, instructions: '', tools: [tool] })
    // @ts-expect-error -- the slice has no such value
    defineAgent({ name, model, slices: [order], instructions: (_, ctx) => String(ctx.slices.order.rows) })
  })
})
