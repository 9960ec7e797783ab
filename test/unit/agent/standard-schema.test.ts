// Schemas of any library: their JSON form, what they read, what they refuse, and the types that follow from them.
import { toStandardJsonSchema } from '@valibot/to-json-schema'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import * as mini from 'zod/mini'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineSlice } from '../../../src/agent/define-slice.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { AnswerOf, Tool } from '../../../src/agent/tool.ts'
import type { ContextOf } from '../../../src/agent/agent.ts'
import { contextProblem } from '../../../src/jobs/context-check.ts'
import { outputProblem } from '../../../src/jobs/tool-call/record.ts'
import { parseInput } from '../../../src/jobs/tool-call/resolve.ts'
import { PawlError } from '../../../src/session/errors.ts'
import { scripted } from '../../../src/testing/scripted.ts'

const common = { name: 'look', description: 'Looks.', effect: 'read' } as const
const execute = (): null => null
const model = scripted(() => 'hi')

/** The same input in each library: a required string, a number with a default, and a string of digits that is read as a number. */
const INPUTS = {
  zod: z.object({ id: z.string(), n: z.number().default(1), age: z.string().regex(/^\d+$/).transform(Number) }),
  'zod/mini': mini.object({
    id: mini.string(),
    n: mini._default(mini.number(), 1),
    age: mini.pipe(mini.string().check(mini.regex(/^\d+$/)), mini.transform(Number)),
  }),
  valibot: toStandardJsonSchema(
    v.object({ id: v.string(), n: v.optional(v.number(), 1), age: v.pipe(v.string(), v.digits(), v.transform(Number)) }),
  ),
  arktype: type({ id: 'string', n: 'number = 1', age: 'string.integer.parse' }),
} satisfies Record<string, StandardSchemaV1>
const LIBRARIES = Object.keys(INPUTS) as (keyof typeof INPUTS)[]

/** The refusal of a declaration. */
function refusalOf(declare: () => unknown): { code: string; message: string } {
  try {
    declare()
  } catch (error) {
    expect(error).toBeInstanceOf(PawlError)
    const { code, message } = error as PawlError
    return { code, message }
  }
  throw new Error('it was accepted')
}

const toolOf = (input: StandardSchemaV1): Tool => defineTool({ ...common, input, execute })

describe.each(LIBRARIES)('a tool with a schema of %s', (library) => {
  const tool = toolOf(INPUTS[library])

  it('a tool with a schema of any library tells the model which form the input must have', () => {
    expect(tool.inputSchema).toMatchObject({ type: 'object', properties: { id: { type: 'string' }, age: { type: 'string' } } })
    expect((tool.inputSchema.required as string[]).toSorted()).toEqual(['age', 'id'])
  })

  it('a tool with a schema of any library applies its defaults and transforms to the arguments', async () => {
    expect(await parseInput(tool, { id: 'a', age: '41' })).toEqual({ input: { id: 'a', n: 1, age: 41 } })
  })

  it('a tool with a schema of any library reports every issue of wrong arguments, and where it is', async () => {
    const parsed = await parseInput(tool, { id: 7, age: 'old' })
    const { problem } = parsed as { problem: string }
    expect(problem).toMatch(/^The arguments do not match the tool's schema\./)
    expect(problem).toMatch(/→ at id/)
    expect(problem).toMatch(/→ at age/)
  })
})

describe('asynchronous checks', () => {
  const isA = (id: string): Promise<boolean> => Promise.resolve(id === 'a')
  const valibot = v.objectAsync({ id: v.pipeAsync(v.string(), v.checkAsync(isA, 'not a')) })

  it.each<[string, StandardSchemaV1]>([
    ['zod', z.object({ id: z.string().refine(isA, 'not a') })],
    // Valibot cannot convert an asynchronous schema, so the JSON form is that of its synchronous part.
    ['valibot', withJson(valibot, toStandardJsonSchema(v.object({ id: v.string() })))],
  ])('asynchronous checks are awaited (%s)', async (_, input) => {
    expect(await parseInput(toolOf(input), { id: 'a' })).toEqual({ input: { id: 'a' } })
    expect(await parseInput(toolOf(input), { id: 'b' })).toMatchObject({ problem: expect.stringMatching(/not a[\s\S]*→ at id/) })
  })

  it('asynchronous checks run once, and the model sees the errors that they throw', async () => {
    let times = 0
    const failing = z.object({
      id: z.string().refine(async () => {
        times += 1
        throw new Error('the check broke')
      }),
    })
    expect(await parseInput(toolOf(failing), { id: 'a' })).toEqual({
      problem: 'The arguments could not be checked: the check broke',
      thrown: new Error('the check broke'),
    })
    expect(times).toBe(1)
  })

  it('asynchronous checks may check a context', async () => {
    const agent = defineAgent({ name: 'a', instructions: '', model, context: valibot })
    expect(await contextProblem(agent, { id: 'a' })).toBeUndefined()
    expect(await contextProblem(agent, { id: 'b' })).toContain('not a')
  })

  it('asynchronous checks are refused for a slice, whose values are folded synchronously', () => {
    const schema = z.number().refine(() => Promise.resolve(true))
    const { code, message } = refusalOf(() => defineSlice({ name: 's', version: 1, schema, initial: 0, on: {} }))
    expect(code).toBe('invalid_slice')
    expect(message).toContain('its checks are asynchronous')
  })
})

/** A schema that has the checks of one and the JSON form of the other. */
function withJson<S extends StandardSchemaV1>(schema: S, form: { '~standard': object }): S {
  return { '~standard': { ...form['~standard'], ...schema['~standard'] } } as S
}

describe('contexts, results and slices', () => {
  it.each<[string, StandardSchemaV1<{ tenant: string }>]>([
    ['zod', z.object({ tenant: z.string() })],
    ['valibot, which needs no JSON form here', v.object({ tenant: v.string() })],
    ['arktype', type({ tenant: 'string' })],
  ])('contexts, results and slices may have a schema of %s', async (_, schema) => {
    const agent = defineAgent({ name: 'a', instructions: '', model, context: schema })
    expect(await contextProblem(agent, { tenant: 'acme' })).toBeUndefined()
    expect(await contextProblem(agent, { tenant: 5 })).toContain('→ at tenant')
    const tool = defineTool({ ...common, input: z.object({}), output: schema, execute: () => ({ tenant: 'acme' }) })
    expect(await outputProblem(tool, { tenant: 'acme' })).toBeUndefined()
    expect(await outputProblem(tool, {})).toContain('→ at tenant')
    const slice = defineSlice({ name: 's', version: 1, schema, initial: { tenant: 'acme' }, on: {} })
    expect(slice.initial).toEqual({ tenant: 'acme' })
    expect(refusalOf(() => defineSlice({ name: 's', version: 1, schema, initial: { tenant: 5 } as never, on: {} }))).toEqual({
      code: 'invalid_slice',
      message: expect.stringContaining('→ at tenant'),
    })
  })
})

describe('an input without a JSON form is refused when the tool is declared', () => {
  const foreign: StandardSchemaV1 = { '~standard': { version: 1, vendor: 'acme', validate: (value) => ({ value }) } }
  const failing = withJson(foreign, { '~standard': { jsonSchema: { input: () => fail('no such target'), output: () => ({}) } } })

  it.each<[string, StandardSchemaV1, string]>([
    ['of valibot itself', v.object({ id: v.string() }), 'wrap it in toStandardJsonSchema() from @valibot/to-json-schema.'],
    ['of a library that has none', foreign, 'use a library that implements Standard JSON Schema, such as zod 4.'],
    ['that cannot be converted', failing, 'has no JSON form (no such target)'],
    ['that valibot cannot convert', toStandardJsonSchema(v.object({ at: v.date() })), 'Use types that JSON has'],
    ['that is not an object', type('string'), 'is not an object. Wrap it in one'],
  ])('an input %s is refused when the tool is declared', (_, input, said) => {
    const { code, message } = refusalOf(() => toolOf(input))
    expect(code).toBe('no_json_schema')
    expect(message).toContain('The input of tool "look"')
    expect(message).toContain(said)
  })
})

function fail(message: string): never {
  throw new Error(message)
}

describe('types', () => {
  it('types of inputs follow from the schema', () => {
    type Read = { id: string; n: number; age: number }
    defineTool({ ...common, input: INPUTS.zod, execute: (input) => expectTypeOf(input).toEqualTypeOf<Read>() })
    defineTool({ ...common, input: INPUTS.valibot, execute: (input) => expectTypeOf(input).toEqualTypeOf<Read>() })
    defineTool({ ...common, input: INPUTS.arktype, execute: (input) => expectTypeOf(input).toEqualTypeOf<Read>() })
  })

  it('types of results and answers follow from the schema', () => {
    const output = v.object({ id: v.string() })
    const tool = defineTool({ ...common, input: INPUTS.arktype, output, execute: 'client' })
    expectTypeOf<AnswerOf<typeof tool>>().toEqualTypeOf<{ id: string }>()
    // @ts-expect-error The result has no id.
    defineTool({ ...common, input: INPUTS.zod, output, execute: () => ({ name: 'x' }) })
  })

  it('types of contexts and slices follow from the schema', () => {
    const agent = defineAgent({ name: 'a', instructions: '', model, context: type({ tenant: 'string' }) })
    expectTypeOf<ContextOf<typeof agent>>().toEqualTypeOf<{ tenant: string }>()
    const slice = defineSlice({ name: 's', version: 1, schema: v.object({ n: v.number() }), initial: { n: 0 }, on: {} })
    expectTypeOf(slice.initial).toEqualTypeOf<{ n: number }>()
  })
})
