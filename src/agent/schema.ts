// Schemas of any library that implements Standard Schema: checks values with them, and derives their JSON form and its digest.
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import { z } from 'zod'
import { isObject, type JsonObject } from '../session/json.ts'
import { canonicalJson } from '../session/canonical.ts'
import { sha256Hex } from './sha256.ts'
import { DeclarationError } from './errors.ts'

/** What an option that accepts a schema expects. */
export const A_SCHEMA = 'a schema of zod, or of another library that implements Standard Schema'

/** Whether the value is a Standard Schema. ArkType's schemas are functions, so `typeof` cannot tell. */
export function isSchema(value: unknown): value is StandardSchemaV1 {
  return typeof (value as Partial<StandardSchemaV1> | null | undefined)?.['~standard']?.validate === 'function'
}

/** The outcome of a check: the parsed value, or what is wrong with it. */
export type SchemaResult<V> = { value: V } | { problem: string }

/** Checks a value. Rejects with whatever the schema's own code throws. */
export async function check<V>(schema: StandardSchemaV1<unknown, V>, value: unknown): Promise<SchemaResult<V>> {
  if (!parsesAsync(schema)) return checkedOf(await schema['~standard'].validate(value))
  const parsed = await schema.safeParseAsync(value)
  return checkedOf(parsed.success ? { value: parsed.data } : parsed.error)
}

/** zod's `validate` parses twice if checks are asynchronous, and does not await the rejections of the first parse. */
function parsesAsync<V>(schema: StandardSchemaV1<unknown, V>): schema is z.ZodType<V> {
  return schema['~standard'].vendor === 'zod' && 'safeParseAsync' in schema
}

/**
 * Checks a value with a schema that must not be asynchronous.
 * @throws an error that says what is wrong with the value, or that the schema is asynchronous.
 */
export function checkNow<V>(schema: StandardSchemaV1<unknown, V>, value: unknown): V {
  const result = schema['~standard'].validate(value)
  if (result instanceof Promise) {
    result.catch(() => undefined)
    throw new TypeError('its checks are asynchronous')
  }
  const checked = checkedOf(result)
  if ('problem' in checked) throw new TypeError(checked.problem)
  return checked.value
}

function checkedOf<V>(result: StandardSchemaV1.Result<V>): SchemaResult<V> {
  return result.issues ? { problem: asSentence(z.prettifyError(result)) } : { value: result.value }
}

/** The problem ends like a sentence, because others may follow it. */
function asSentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`
}

/**
 * The JSON Schema that the model's arguments must match, and its digest. `what` names the schema in an error.
 * @throws DeclarationError `no_json_schema`.
 */
export function inputSchemaOf(schema: unknown, what: string): { inputSchema: JsonObject; schemaDigest: string } {
  const refuse = (problem: string, cause?: unknown): DeclarationError =>
    new DeclarationError('no_json_schema', `${what} ${problem}`, { cause })
  if (!isSchema(schema)) throw refuse(`is not a schema. Pass ${A_SCHEMA}.`)
  const convert = converterOf(schema)
  if (!convert) throw refuse(withoutConverter(schema['~standard'].vendor))
  let inputSchema: JsonObject
  try {
    inputSchema = withInlineRoot(JSON.parse(JSON.stringify(convert())) as JsonObject)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw refuse(
      `has no JSON form (${why}). Use types that JSON has, and convert strings to dates and the like in a transform or in your own code.`,
      cause,
    )
  }
  if (inputSchema.type !== 'object') throw refuse('is not an object. Wrap it in one, such as z.object({ … }).')
  const union = ROOT_UNIONS.find((keyword) => keyword in inputSchema)
  if (union !== undefined) {
    throw refuse(
      `has ${union} beside its properties, which the APIs of Anthropic and OpenAI refuse in every request. Put the alternatives into a property, or check them in the tool.`,
    )
  }
  return { inputSchema, schemaDigest: digestOf(inputSchema) }
}

/** Keywords that providers allow only inside a property. */
const ROOT_UNIONS = ['anyOf', 'oneOf', 'allOf']

/**
 * The schema with its root in place. zod from 4.5 on refers to a schema with an id (`.meta({ id })`), even if it is the root, and providers
 * read only the root itself.
 */
function withInlineRoot(schema: JsonObject, steps = 8): JsonObject {
  const { $ref, $defs, ...beside } = schema
  const name = typeof $ref === 'string' && $ref.startsWith(DEFS) ? $ref.slice(DEFS.length) : undefined
  const root = isObject($defs) && name !== undefined ? $defs[name] : undefined
  if (name === undefined || !isObject(root) || steps === 0) return schema
  const others = Object.fromEntries(Object.entries($defs as JsonObject).filter(([other]) => other !== name))
  const isRecursive = JSON.stringify([root, others]).includes(JSON.stringify($ref))
  const kept = isRecursive ? { ...others, [name]: root as JsonObject } : others
  return withInlineRoot({ ...(root as JsonObject), ...beside, ...(Object.keys(kept).length > 0 && { $defs: kept }) }, steps - 1)
}

const DEFS = '#/$defs/'

/** The order of an object's members, or of `required`, does not change what a schema means. */
function digestOf(inputSchema: JsonObject): string {
  const ordered = JSON.parse(JSON.stringify(inputSchema), (name, value: unknown) =>
    name === 'required' && Array.isArray(value) ? value.toSorted() : value,
  ) as JsonObject
  return sha256Hex(canonicalJson(ordered)).slice(0, 16)
}

/** The function that makes the JSON form. zod's mini schemas, and zod before 4.2, have no converter, but zod can convert them. */
function converterOf(schema: StandardSchemaV1): (() => unknown) | undefined {
  const { vendor, jsonSchema } = schema['~standard'] as StandardSchemaV1.Props & Partial<StandardJSONSchemaV1.Props>
  if (typeof jsonSchema?.input === 'function') return () => jsonSchema.input({ target: 'draft-2020-12' })
  if (vendor === 'zod' && '_zod' in schema) return () => z.toJSONSchema(schema as z.ZodType, { io: 'input' })
  return undefined
}

function withoutConverter(vendor: string): string {
  const remedy: Readonly<Record<string, string>> = {
    valibot: 'wrap it in toStandardJsonSchema() from @valibot/to-json-schema',
    arktype: 'update arktype to 2.1.28 or newer',
    zod: 'update zod to version 4',
  }
  return `is a schema of ${vendor} without a JSON form, which the model needs: ${
    remedy[vendor] ?? 'use a library that implements Standard JSON Schema, such as zod 4'
  }.`
}
