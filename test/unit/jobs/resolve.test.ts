// What a worker's code says about a call that the model requested.
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { parseInput, resolveCall } from '../../../src/jobs/tool-call/resolve.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { Json } from '../../../src/session/json.ts'
import { scripted } from '../../../src/testing/scripted.ts'

const common = { description: 'T.', execute: () => null }
const pay = defineTool({
  ...common,
  name: 'pay',
  effect: 'external',
  timeout: 5e3,
  retry: {
    maxRetries: 1,
    baseDelay: 10,
  },
  input: z.object({
    order: z.string(),
    cents: z.number().int(),
  }),
  verify: () => ({ happened: false }),
})
const look = defineTool({ ...common, name: 'look', effect: 'read', input: z.object({ id: z.string().optional() }) })
const slow = defineTool({
  ...common,
  name: 'slow',
  effect: 'read',
  input: z.object({ id: z.string().refine(async (id) => Promise.resolve(id === 'a')) }),
})
const broken = defineTool({
  ...common,
  name: 'broken',
  effect: 'read',
  input: z.object({
    id: z.string().refine(() => {
      throw new Error('the check broke')
    }),
  }),
})
const agent = defineAgent({ name: 'a', instructions: '', model: scripted(() => ''), tools: [pay, look, slow, broken] })

const warn = vi.fn()
const log = { debug() {}, info() {}, warn, error() {} }
const ctx = { sessionId: 's', agent: 'a', run: 1, turn: 2, context: null, metadata: {}, tags: [], services: {}, slices: {}, log }
const resolve = (tool: string, input: Json, index = 0) =>
  resolveCall(agent, { sessionId: 's', run: 1, intent: 1, turn: 2, index, tool, input }, { ctx })

describe('the resolution of a call', () => {
  it('the resolution of a call has everything that the workflow must know about it', async () => {
    expect(await resolve('pay', { order: 'o', cents: 1 }, 3)).toEqual({
      index: 3,
      tool: 'pay',
      effect: 'external',
      onUnknown: 'ask',
      timeoutMs: 5e3,
      retry: {
        maxRetries: 1,
        baseDelayMs: 10,
      },
      verify: true,
      key: expect.stringMatching(/^[0-9a-f]{64}$/),
      inputDigest: expect.stringMatching(/^[0-9a-f]{32}$/),
      schemaDigest: pay.schemaDigest,
    })
  })

  it('the resolution of a call has no key for a read', async () => {
    const resolution = await resolve('look', {})
    expect(resolution).toMatchObject({ effect: 'read', verify: false })
    expect(resolution).not.toHaveProperty('key')
  })

  it('the resolution of a call is the same for the same call, regardless of the order of its arguments', async () => {
    expect(await resolve('pay', { order: 'o', cents: 1 })).toEqual(await resolve('pay', { cents: 1, order: 'o' }))
  })

  it.each<[string, Json]>([
    ['an unknown tool', {}],
    ['toString', {}],
    ['__proto__', {}],
    ['', {}],
  ])('the resolution of a call to %s says which tools exist', async (tool, input) => {
    const { invalid, effect } = await resolve(tool, input)
    expect(invalid).toEqual({ code: 'unknown_tool', message: expect.stringContaining('pay, look') })
    expect(effect).toBe('read')
  })

  it('the resolution of a call to a tool with a very long name has a shortened name', async () => {
    const { tool, invalid } = await resolve('x'.repeat(100_000), {})
    expect(tool.length).toBeLessThanOrEqual(200)
    expect(invalid?.message.length).toBeLessThan(1_000)
  })

  it.each<[string, Json, string]>([
    ['the wrong type', { order: 1, cents: 1 }, 'order'],
    ['a field missing', { order: 'o' }, 'cents'],
    ['a list', [], 'expected object'],
    ['null', null, 'expected object'],
    ['text that is not JSON', '{"order": "o", "ce', 'not a JSON object: {"order"'],
  ])('the resolution of a call whose arguments have %s tells the model what is wrong with them', async (_, input, says) => {
    const { invalid, key, effect } = await resolve('pay', input)
    expect(invalid).toEqual({ code: 'invalid_arguments', message: expect.stringContaining(says) })
    // A call that cannot run has no key, but keeps its effect.
    expect([key, effect]).toEqual([undefined, 'external'])
  })

  it('the resolution of a call bounds what it says about very long arguments', async () => {
    const { invalid } = await resolve('pay', 'x'.repeat(1_000_000))
    expect(invalid?.message.length).toBeLessThan(4_100)
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`k${n}`, 'x']))
    expect((await resolve('pay', many)).invalid?.message.length).toBeLessThan(4_100)
  })

  it('the resolution of a call waits for an asynchronous schema, and survives one that throws', async () => {
    expect(await resolve('slow', { id: 'a' })).not.toHaveProperty('invalid')
    expect(await resolve('slow', { id: 'b' })).toMatchObject({ invalid: { code: 'invalid_arguments' } })
    expect(await resolve('broken', { id: 'a' })).toMatchObject({
      invalid: { code: 'invalid_arguments', message: expect.stringContaining('the check broke') },
    })
  })

  it('the resolution of a call succeeds for any tool name and any arguments', async () => {
    const json = fc.jsonValue({
      stringUnit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    }) as fc.Arbitrary<Json>
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.constantFrom('pay', 'look', 'slow'), fc.string()), json, async (tool, input) => {
        const resolution = await resolve(tool, input)
        expect(JSON.parse(JSON.stringify(resolution))).toEqual(resolution)
      }),
    )
  })
})

describe('the input of a tool', () => {
  it('the input of a tool is what the schema makes of the raw arguments', async () => {
    const tool = defineTool({
      ...common,
      name: 't',
      effect: 'read',
      input: z.object({ n: z.coerce.number().default(4), when: z.string().transform(Number) }),
    })
    expect(await parseInput(tool, { when: '7', other: 1 })).toEqual({ input: { n: 4, when: 7 } })
  })
})

it.each([
  ['too long', () => 'x'.repeat(1_001)],
  ['too long as JSON', () => '€'.repeat(900)],
  ['empty', () => ''],
])('a key that is %s is logged as one that cannot be used, not as an exception of the tool’s function', async (_, idempotency) => {
  const put = defineTool({ ...common, name: 'put', effect: 'idempotent', input: z.object({}), idempotency })
  const keyed = defineAgent({ name: 'a', instructions: '', model: scripted(() => ''), tools: [put] })
  warn.mockClear()
  const { invalid } = await resolveCall(keyed, { sessionId: 's', run: 1, intent: 1, turn: 2, index: 0, tool: 'put', input: {} }, { ctx })
  expect(invalid).toMatchObject({ code: 'invalid_idempotency_key' })
  expect(warn.mock.calls).toEqual([
    [{ call: 't_1_2_0', tool: 'put', reason: expect.any(String) }, "the tool's idempotency function returned a key that cannot be used"],
  ])
})

describe('whether a call needs approval', () => {
  const asking = (approval: NonNullable<Parameters<typeof defineTool>[0]['approval']>) =>
    resolveCall(
      defineAgent({
        name: 'a',
        instructions: '',
        model: scripted(() => ''),
        tools: [
          defineTool({
            ...common,
            name: 'pay',
            effect: 'external',
            input: z.object({}),
            approval,
            approvalTimeout: '2h',
            onExpiry: 'error',
          }),
        ],
      }),
      { sessionId: 's', run: 1, intent: 1, turn: 2, index: 0, tool: 'pay', input: {} },
      { ctx },
    )
  const terms = { expiresMs: 7_200_000, onExpiry: 'error' }

  it('whether a call needs approval is decided by its tool, with a reason', async () => {
    expect((await asking(true)).approval).toEqual(terms)
    expect((await asking(false)).approval).toBeUndefined()
    expect((await asking(() => 'too much')).approval).toEqual({ ...terms, reason: 'too much' })
    expect((await asking(async () => false)).approval).toBeUndefined()
    expect((await asking((() => undefined) as never)).approval).toEqual(terms)
  })

  it('a call that its tool denies is not executed, and the model gets the reason', async () => {
    const denied = await asking(() => ({ deny: 'the shop is closed.' }))
    expect(denied.invalid).toMatchObject({ code: 'denied', message: expect.stringContaining('Reason: the shop is closed.') })
    expect(denied.approval).toBeUndefined()
    expect((await asking((() => ({ deny: 5 })) as never)).approval).toEqual(terms)
    expect((await asking((() => null) as never)).approval).toEqual(terms)
  })

  it('a call needs approval if its tool throws, or does not answer in time', async () => {
    const thrown = await asking(() => {
      throw new Error('no rules')
    })
    expect(thrown.approval).toEqual({ ...terms, reason: "The tool's approval function failed: no rules", failed: true })
    // The log has the stack.
    expect(warn).toHaveBeenCalledWith(
      { call: 't_1_2_0', tool: 'pay', err: expect.objectContaining({ message: 'no rules' }) },
      "the tool's approval function threw",
    )
    vi.useFakeTimers()
    try {
      const silent = asking(() => new Promise(() => undefined))
      await vi.advanceTimersByTimeAsync(30_000)
      expect((await silent).approval).toMatchObject({ ...terms, reason: expect.stringContaining('within 30,000 ms') })
    } finally {
      vi.useRealTimers()
    }
  })
})
