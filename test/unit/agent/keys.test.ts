// Idempotency keys and input digests: which calls are one intent.
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { idempotencyKeyOf, inputDigestOf } from '../../../src/agent/keys.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { Idempotency, Tool } from '../../../src/agent/tool.ts'
import type { Json } from '../../../src/session/json.ts'

type Input = { to: string }
type Scope = Idempotency<Input>

function tool(idempotency?: Scope, name = 'send'): Tool {
  const input = z.object({ to: z.string() })
  return defineTool({ name, description: 'Sends.', input, effect: 'external', execute: () => null, ...(idempotency && { idempotency }) })
}

const CALL = { sessionId: 's', intent: 2, turn: 3, index: 1, rawInput: { to: 'a', cc: 'b' } as Json, input: { to: 'a' } }
const keyOf = (one: Tool, more: Partial<typeof CALL> = {}) => idempotencyKeyOf(one, { ...CALL, ...more })

describe('an idempotency key', () => {
  it('an idempotency key is the SHA-256 of session, run, tool and canonical raw arguments', () => {
    const text = '["s",2,"send",{"cc":"b","to":"a"}]'
    expect(keyOf(tool())).toBe(createHash('sha256').update(text).digest('hex'))
  })

  it('an idempotency key depends on each of the arguments, even those that the schema drops, but not on their order', () => {
    expect(keyOf(tool(), { rawInput: { cc: 'b', to: 'a' } })).toBe(keyOf(tool()))
    expect(keyOf(tool(), { rawInput: { to: 'a', cc: 'c' } })).not.toBe(keyOf(tool()))
    expect(keyOf(tool(), { rawInput: { to: 'é', cc: 'b' } })).not.toBe(keyOf(tool(), { rawInput: { to: 'e\u0301', cc: 'b' } }))
  })

  it.each<[Scope, { turn: boolean; run: boolean; session: boolean }]>([
    ['run', { turn: false, run: true, session: true }],
    ['session', { turn: false, run: false, session: true }],
    ['call', { turn: true, run: true, session: true }],
  ])('an idempotency key with the scope %s is the same within that scope, and differs outside it', (scope, differs) => {
    const one = tool(scope)
    expect(keyOf(one, { turn: 4 }) !== keyOf(one)).toBe(differs.turn)
    expect(keyOf(one, { intent: 3 }) !== keyOf(one)).toBe(differs.run)
    expect(keyOf(one, { sessionId: 't' }) !== keyOf(one)).toBe(differs.session)
    expect(keyOf(tool(scope, 'other'))).not.toBe(keyOf(one))
  })

  it('an idempotency key is never the same for another session, run or input', () => {
    const calls = fc.record({ sessionId: fc.string(), intent: fc.nat(20), rawInput: fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<Json> })
    // Compared as JSON, which has no -0.
    const areSame = (a: object, b: object): boolean => isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)))
    fc.assert(
      fc.property(calls, calls, (a, b) => {
        expect(keyOf(tool(), a) === keyOf(tool(), b)).toBe(areSame(a, b))
      }),
    )
  })

  it('an idempotency key is the tool and what its function returns for the parsed input, so no other tool has it', () => {
    const key: Scope = (input, ctx) => `${input.to}/${ctx.sessionId}/${ctx.run}/${ctx.callId}`
    expect(keyOf(tool(key))).toBe('send:a/s/2/t_2_3_1')
    expect(keyOf(tool(key, 'other'))).toBe('other:a/s/2/t_2_3_1')
  })

  it.each([
    ['an empty one', ''],
    ['none', undefined],
    ['no text', 7],
    ['a promise', Promise.resolve('k')],
    ['too much', 'k'.repeat(1_001)],
  ])('an idempotency key cannot be %s', (_, key) => {
    const one = tool((() => key) as unknown as Scope)
    expect(() => keyOf(one)).toThrow('must return a string of 1 to 1,000 characters')
  })

  it('an idempotency key is not made for a read', () => {
    const read = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), effect: 'read', execute: () => null })
    expect(keyOf(read)).toBeUndefined()
  })

  it('an idempotency key can be made from arguments that UTF-8 cannot encode', () => {
    expect(keyOf(tool(), { rawInput: { to: '\ud800' } })).not.toBe(keyOf(tool(), { rawInput: { to: '\ud801' } }))
  })
})

describe('an input digest', () => {
  it('an input digest distinguishes intents by tool and arguments, and by nothing else', () => {
    expect(inputDigestOf('send', { a: 1, b: 2 })).toBe(inputDigestOf('send', { b: 2, a: 1 }))
    expect(inputDigestOf('send', { a: 1 })).not.toBe(inputDigestOf('send', { a: '1' }))
    expect(inputDigestOf('send', { a: 1 })).not.toBe(inputDigestOf('mail', { a: 1 }))
    expect(inputDigestOf('send', '{"a":1}')).not.toBe(inputDigestOf('send', { a: 1 }))
  })
})
