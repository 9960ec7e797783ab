// What is recorded of a tool's result. Whatever the result looks like, the effect has happened.
import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { sha256Hex } from '../../../src/agent/sha256.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { ToolContext, ToolOptions } from '../../../src/agent/tool.ts'
import type { LargeValues, Patience } from '../../../src/jobs/large-values.ts'
import { recordResult } from '../../../src/jobs/tool-call/record.ts'
import type { Blob } from '../../../src/session/blobs.ts'
import { jsonBytes } from '../../../src/session/json.ts'

type Options = ToolOptions<z.ZodType, unknown>

/** The warnings that were logged. */
interface Logged {
  warnings: string[]
}

function contextWith(seen: Logged): ToolContext {
  const log = { debug() {}, info() {}, warn: (_: object, message = '') => void seen.warnings.push(message), error() {} }
  return {
    sessionId: 's',
    agent: 'a',
    run: 1,
    turn: 1,
    context: null,
    metadata: {},
    tags: [],
    services: {},
    slices: {},
    log,
    intent: 1,
    callId: 't_1_1_0',
    attempt: 1,
    idempotencyKey: 'k',
    signal: new AbortController().signal,
    stillMine: () => Promise.resolve(true),
    progress: () => undefined,
    lastProgress: undefined,
    milestone: () => undefined,
    emit: () => undefined,
    spend: () => undefined,
  }
}

/** A store that is away, and what was offered to it. */
function away(): LargeValues & { offered: { blob: Blob; patience: Patience }[] } {
  const offered: { blob: Blob; patience: Patience }[] = []
  return {
    offered,
    async keep(_, blob, patience) {
      offered.push({ blob, patience })
      return undefined
    },
    hydrate: async (_, events) => [...events],
  }
}

/** A store that accepts everything. */
function there(): LargeValues & { kept: Blob[] } {
  const kept: Blob[] = []
  return {
    kept,
    async keep(_, blob) {
      kept.push(blob)
      return blob.ref
    },
    hydrate: async (_, events) => [...events],
  }
}

const WAIT_MS = 12_345

function record(
  result: unknown,
  more: Pick<Options, 'toModel' | 'effectId' | 'output'> = {},
  seen: Logged = { warnings: [] },
  values: LargeValues = away(),
) {
  const tool = defineTool({ name: 't', description: 'T.', input: z.object({}), effect: 'idempotent', execute: () => null, ...more })
  const storage = { values, executionId: 'x', waitMs: WAIT_MS, signal: new AbortController().signal }
  return recordResult({ tool, input: { id: 'A7' }, result }, contextWith(seen), storage)
}

const circular: { self?: object } = {}
circular.self = circular

function refuse(): never {
  throw new Error('no JSON of me')
}

/** Lists nested this deep. */
function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

describe('the record', () => {
  it.each<[string, unknown, unknown]>([
    ['text', 'done', 'done'],
    ['an object', { a: [1, null] }, { a: [1, null] }],
    ['nothing', undefined, null],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['what JSON drops', { a: undefined, f: () => 1, n: Number.NaN }, { n: null }],
    ['a function', () => 1, null],
    ['an error', new Error('no'), {}],
    ['half a character and NUL', '\ud800\u0000', '\ud800\u0000'],
  ])('the record of %s is its plain JSON', async (_, result, value) => {
    expect(await record(result)).toEqual({ value })
  })

  it.each<[string, unknown]>([
    ['a circular value', circular],
    ['a BigInt', { cents: 1n }],
    ['a value that says it cannot be written', { toJSON: refuse }],
    ['a value nested too deep', nested(600)],
    ['a value nested far too deep', nested(200_000)],
  ])('the record of %s says that the call completed and why its result is missing', async (_, result) => {
    expect(await record(result)).toEqual({
      value: null,
      content: expect.stringMatching(/^The call completed, but its result cannot be recorded/),
    })
  })

  it('the record of a result that is too large for the store has its size, its digest and its beginning', async () => {
    const values = away()
    const { value, content } = await record('€'.repeat(3_400_000), {}, undefined, values)
    expect(value).toBeNull()
    expect(content).toMatch(/^The call completed\. Its result has 10200002 bytes.*\(sha256 [0-9a-f]{64}\)/)
    expect(content).toContain('€€€')
    expect(jsonBytes(content)).toBeLessThan(100_000)
    expect(values.offered.map(({ patience }) => patience.waitMs)).toEqual([WAIT_MS])
  })

  it('the record of a large result without a store is complete if history can hold it, and does not wait for a store', async () => {
    const values = away()
    const text = 'x'.repeat(1_000_000 - 2)
    expect(await record(text, {}, undefined, values)).toEqual({ value: text })
    expect(values.offered.map(({ patience }) => patience.waitMs)).toEqual([undefined])
    expect((await record(`${text}x`)).value).toBeNull()
    // One escape is six bytes.
    expect((await record('\u0000'.repeat(200_000))).value).toBeNull()
  })

  it('recording a small result does not query the store', async () => {
    const values = away()
    expect(await record('x'.repeat(127_998), {}, undefined, values)).toEqual({ value: 'x'.repeat(127_998) })
    expect(values.offered).toEqual([])
  })

  it('the record of a large result refers to the store, which has the value and what the model sees, exactly', async () => {
    const values = there()
    const result = { text: '\u0000\ud800€'.repeat(60_000), n: 1 }
    const made = await record(result, { toModel: () => 'all is well', effectId: () => 'e-1' }, undefined, values)
    const [blob] = values.kept
    expect(made).toEqual({ blob: blob?.ref, effectId: 'e-1' })
    expect(JSON.parse(blob?.json ?? '')).toEqual({ value: result, content: 'all is well' })
    expect(blob?.ref).toEqual({ sha256: sha256Hex(blob?.json ?? ''), bytes: Buffer.byteLength(blob?.json ?? ''), preview: 'all is well' })
  })

  it('the record of a large result has a preview that begins as the model reads it, and is bounded', async () => {
    const values = there()
    await record('😀'.repeat(100_000), {}, undefined, values)
    await record({ rows: Array.from({ length: 40_000 }, (_, n) => n) }, {}, undefined, values)
    await record([{ type: 'text', text: 'seen '.repeat(40_000) }], {}, undefined, values)
    const previews = values.kept.map(({ ref }) => ref.preview)
    expect(previews.map((preview) => preview.slice(0, 10))).toEqual(['😀😀😀😀😀', '{"rows":[0', 'seen seen '])
    for (const preview of previews) expect(preview).toHaveLength(2_000)
  })

  it('the record of a result that is too large for any model is its beginning, and the store is not asked', async () => {
    const values = there()
    const { value, content } = await record('x'.repeat(64_000_001), {}, undefined, values)
    expect(value).toBeNull()
    expect(content).toMatch(/^The call completed\. Its result has 64000003 bytes/)
    expect(values.kept).toEqual([])
  })

  it('the record keeps what the model sees in addition to the value', async () => {
    expect(await record({ secret: 1 }, { toModel: () => 'all is well' })).toEqual({ value: { secret: 1 }, content: 'all is well' })
    const blocks = [{ type: 'text' as const, text: 'seen' }]
    expect(await record({ secret: 1 }, { toModel: () => blocks })).toEqual({ value: { secret: 1 }, content: blocks })
  })

  it.each<[string, unknown]>([
    ['an object', { a: 1 }],
    ['a promise', Promise.resolve('late')],
    ['data that only looks like blocks', [{ type: 'text', text: 'a', bold: true }]],
    ['an image without source', [{ type: 'image' }]],
    ['a number', 7],
    ['a circular value', circular],
    ['a BigInt', 1n],
  ])('the record never shows the model %s, because no model accepts it', async (_, seen) => {
    const { value, content } = await record({ id: 7 }, { toModel: () => seen as string })
    expect(value).toEqual({ id: 7 })
    if (content !== undefined) expect(typeof content).toBe('string')
  })

  it('the record shows the model what `toModel` makes of the result and the arguments', async () => {
    const { content } = await record({ paid: 1 }, { toModel: (result, _, given) => JSON.stringify([result, given]) })
    expect(content).toBe('[{"paid":1},{"id":"A7"}]')
  })

  it('the record gives `effectId` and `toModel` each a result of their own, with the same instances of classes', async () => {
    const at = new Date(0)
    const result = { refund: { id: 'r-1' }, lines: [{ cents: 1 }], at }
    const spoil = (given: unknown): void => {
      const spoiled = given as typeof result
      spoiled.refund.id = 'spoiled'
      spoiled.lines.length = 0
    }
    const made = await record(result, {
      effectId(given) {
        const { id } = (given as typeof result).refund
        spoil(given)
        return id
      },
      toModel(given) {
        const seen = JSON.stringify(given)
        expect((given as typeof result).at).toBe(at)
        spoil(given)
        return seen
      },
    })
    expect(made).toEqual({ effectId: 'r-1', content: JSON.stringify(made.value), value: JSON.parse(JSON.stringify(result)) })
    expect(result).toEqual({ refund: { id: 'r-1' }, lines: [{ cents: 1 }], at })
  })

  it.each<[string, unknown]>([
    ['circular', circular],
    ['nested far too deep', nested(200_000)],
  ])('the record gives `toModel` a result that is %s, which cannot be copied', async (_, result) => {
    expect((await record(result, { toModel: (given) => `${given === result}` })).content).toBe('true')
  })

  it('the record names the effect with an id of bounded length', async () => {
    expect(await record({ id: 'r-1' }, { effectId: (result) => (result as { id: string }).id })).toEqual({
      value: { id: 'r-1' },
      effectId: 'r-1',
    })
    expect((await record({}, { effectId: () => 'x'.repeat(5_000) })).effectId).toHaveLength(1_000)
    expect(await record({}, { effectId: () => undefined as unknown as string })).toEqual({ value: {} })
    expect(await record({}, { effectId: () => Object.create(null) as string })).toEqual({ value: {} })
  })

  it('the record omits a `toModel` or `effectId` that throws, with a warning', async () => {
    const seen: Logged = { warnings: [] }
    const broken = (): never => {
      throw new Error('broken')
    }
    expect(await record({ id: 7 }, { effectId: broken, toModel: broken }, seen)).toEqual({ value: { id: 7 } })
    expect(seen.warnings).toHaveLength(2)
  })

  it('the record waits for a tool’s async `toModel` and `effectId`, and omits them with a warning if they fail', async () => {
    const seen: Logged = { warnings: [] }
    const said = { effectId: async () => 'r-1', toModel: async () => 'paid' }
    expect(await record({ id: 7 }, said, seen)).toEqual({ value: { id: 7 }, content: 'paid', effectId: 'r-1' })
    expect(seen.warnings).toEqual([])
    const rejects = () => Promise.reject(new Error('broken'))
    expect(await record({ id: 7 }, { effectId: rejects, toModel: rejects }, seen)).toEqual({ value: { id: 7 } })
    vi.useFakeTimers()
    const late = record({ id: 7 }, { toModel: () => new Promise<never>(() => undefined) }, seen)
    await vi.advanceTimersByTimeAsync(3_000)
    vi.useRealTimers()
    expect(await late).toEqual({ value: { id: 7 } })
    expect(seen.warnings).toHaveLength(3)
  })

  it('the record has the value that the body returned, even if the tool changes it afterwards', async () => {
    const change = (result: unknown): string => ((result as { id: number }).id = 0).toString()
    expect(await record({ id: 7 }, { effectId: change, toModel: change })).toMatchObject({ value: { id: 7 } })
  })
})
