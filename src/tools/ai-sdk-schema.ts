// The schemas of AI SDK tools as Standard Schemas.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { DeclarationError } from '../agent/errors.ts'
import { isSchema } from '../agent/schema.ts'
import { isObject, type JsonObject } from '../session/json.ts'
import { checkAgainst } from './json-schema.ts'

/** What `jsonSchema()`, `zodSchema()` and `asSchema()` of the AI SDK return. */
interface AiSdkSchema {
  readonly jsonSchema: unknown
  readonly validate?: ((value: unknown) => AiSdkCheck | PromiseLike<AiSdkCheck>) | undefined
}

type AiSdkCheck = { success: true; value: unknown } | { success: false; error: Error }

/**
 * The Standard Schema for a schema that the AI SDK accepts. `what` names the schema in an error.
 * @throws DeclarationError `no_json_schema`.
 */
export function standardSchemaOf(given: unknown, what: string): StandardSchemaV1 {
  // A schema of ArkType is a function, too.
  const schema = typeof given === 'function' && !isSchema(given) ? made(what, given as () => unknown) : given
  if (isSchema(schema)) return schema
  if (isAiSdkSchema(schema)) return wrapped(schema, what)
  throw new DeclarationError(
    'no_json_schema',
    `${what} is not a schema. Pass one of zod, of another library that implements Standard Schema, or jsonSchema({ type: 'object', … }).`,
  )
}

/** The schema that the user's function returns. @throws DeclarationError `no_json_schema` if it throws. */
function made<T>(what: string, make: () => T): T {
  try {
    return make()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new DeclarationError('no_json_schema', `${what} has no JSON form (${why}). Use types that JSON has.`, { cause })
  }
}

function isAiSdkSchema(schema: unknown): schema is AiSdkSchema {
  return isObject(schema) && 'jsonSchema' in schema
}

function wrapped(schema: AiSdkSchema, what: string): StandardSchemaV1 {
  const jsonSchema = made(what, () => schema.jsonSchema)
  if (!isObject(jsonSchema) || 'then' in jsonSchema) {
    const why = isObject(jsonSchema) ? 'is a promise' : 'is not an object'
    throw new DeclarationError('no_json_schema', `The JSON Schema of ${lowered(what)} ${why}. Pass jsonSchema(await …), with an object.`)
  }
  const form = (): Record<string, unknown> => jsonSchema
  // Without a `validate`, the AI SDK checks nothing.
  const check = schema.validate ? ownCheck(schema) : checkAgainst(jsonSchema as JsonObject)
  const props = { version: 1, vendor: 'ai-sdk', validate: check, jsonSchema: { input: form, output: form } } as const
  return { '~standard': props } as StandardSchemaV1
}

const lowered = (what: string): string => `${what.charAt(0).toLowerCase()}${what.slice(1)}`

type Check = (value: unknown) => StandardSchemaV1.Result<unknown> | Promise<StandardSchemaV1.Result<unknown>>

function ownCheck(schema: AiSdkSchema): Check {
  return async (value) => {
    const checked = await schema.validate?.(value)
    if (checked?.success !== false) return { value: checked?.success ? checked.value : value }
    const { issues } = checked.error as Error & { issues?: StandardSchemaV1.Issue[] }
    return { issues: Array.isArray(issues) ? issues : [{ message: checked.error.message }] }
  }
}
