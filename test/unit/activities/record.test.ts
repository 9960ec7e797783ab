// What is recorded of a tool's result, whatever it looks like: the effect has happened.
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { recordResult } from '../../../src/activities/record.ts'
import { defineTool, type ToolContext, type ToolOptions } from '../../../src/agent/tool.ts'
import { jsonBytes } from '../../../src/session/protocol.ts'

type Options = ToolOptions<z.ZodType, unknown>

/** The warnings that were logged. */
interface Told {
  warnings: string[]
}

function contextTelling(told: Told): ToolContext {
  const log = { debug() {}, info() {}, warn: (_: object, message = '') => void told.warnings.push(message), error() {} }
  return {
    sessionId: 's',
    agent: 'a',
    run: 1,
    turn: 1,
    context: null,
    metadata: {},
    tags: [],
    services: {},
    log,
    callId: 't_1_1_0',
    attempt: 1,
    idempotencyKey: 'k',
    signal: new AbortController().signal,
    stillMine: () => Promise.resolve(true),
    progress: () => undefined,
    lastProgress: undefined,
    milestone: () => undefined,
  }
}

function record(result: unknown, more: Partial<Options> = {}, told: Told = { warnings: [] }) {
  const tool = defineTool({ name: 't', description: 'T.', input: z.object({}), effect: 'idempotent', execute: () => null, ...more })
  return recordResult(tool, result, contextTelling(told))
}

const circular: { self?: object } = {}
circular.self = circular

function refuse(): never {
  throw new Error('no JSON of me')
}

/** Lists in lists, so deep. */
function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

describe('the record of a result', () => {
  it.each<[string, unknown, unknown]>([
    ['text', 'done', 'done'],
    ['an object', { a: [1, null] }, { a: [1, null] }],
    ['nothing', undefined, null],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['what JSON drops', { a: undefined, f: () => 1, n: Number.NaN }, { n: null }],
    ['a function', () => 1, null],
    ['an error', new Error('no'), {}],
    ['half a character and NUL', '\ud800\u0000', '\ud800\u0000'],
  ])('of %s is its plain JSON', (_, result, value) => {
    expect(record(result)).toEqual({ value })
  })

  it.each<[string, unknown]>([
    ['a circular value', circular],
    ['a BigInt', { cents: 1n }],
    ['a value that says it cannot be written', { toJSON: refuse }],
    ['a value nested too deep', nested(600)],
    ['a value nested far too deep', nested(200_000)],
  ])('of %s says that it completed and why it has no record', (_, result) => {
    expect(record(result)).toEqual({
      value: null,
      content: expect.stringMatching(/^The call completed, but its result cannot be recorded/),
    })
  })

  it('of a result that is too large says how large, which, and how it begins', () => {
    const { value, content } = record('€'.repeat(3_400_000))
    expect(value).toBeNull()
    expect(content).toMatch(/^The call completed\. Its result has 10200002 bytes.*\(sha256 [0-9a-f]{64}\)/)
    expect(content).toContain('€€€')
    expect(jsonBytes(content)).toBeLessThan(100_000)
  })

  it('of a result that just fits is whole', () => {
    const text = 'x'.repeat(1_000_000 - 2)
    expect(record(text)).toEqual({ value: text })
    expect(record(`${text}x`).value).toBeNull()
  })

  it('keeps what the model is to see beside the value', () => {
    expect(record({ secret: 1 }, { toModel: () => 'all is well' })).toEqual({ value: { secret: 1 }, content: 'all is well' })
    const blocks = [{ type: 'text' as const, text: 'seen' }]
    expect(record({ secret: 1 }, { toModel: () => blocks })).toEqual({ value: { secret: 1 }, content: blocks })
  })

  it.each<[string, unknown]>([
    ['an object', { a: 1 }],
    ['a promise', Promise.resolve('late')],
    ['data that only looks like blocks', [{ type: 'text', text: 'a', bold: true }]],
    ['an image without source', [{ type: 'image' }]],
    ['a number', 7],
    ['a circular value', circular],
    ['a BigInt', 1n],
  ])('never has %s as what the model sees, for no model takes it', (_, seen) => {
    const { value, content } = record({ id: 7 }, { toModel: () => seen as string })
    expect(value).toEqual({ id: 7 })
    if (content !== undefined) expect(typeof content).toBe('string')
  })

  it('names the effect, in bounds', () => {
    expect(record({ id: 'r-1' }, { effectId: (result) => (result as { id: string }).id })).toEqual({
      value: { id: 'r-1' },
      effectId: 'r-1',
    })
    expect(record({}, { effectId: () => 'x'.repeat(5_000) }).effectId).toHaveLength(1_000)
    expect(record({}, { effectId: () => undefined as unknown as string })).toEqual({ value: {} })
    expect(record({}, { effectId: () => Object.create(null) as string })).toEqual({ value: {} })
  })

  it('goes without what the tool fails to say of its result, and warns', () => {
    const told: Told = { warnings: [] }
    const broken = (): never => {
      throw new Error('broken')
    }
    expect(record({ id: 7 }, { effectId: broken, toModel: broken }, told)).toEqual({ value: { id: 7 } })
    expect(told.warnings).toHaveLength(2)
  })
})
