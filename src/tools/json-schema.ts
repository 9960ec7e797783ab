// Checks values against a JSON Schema that comes without code of its own.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { z } from 'zod'
import { isObject, type JsonObject } from '../session/json.ts'

/**
 * The check of a JSON Schema: a value that does not match has issues, any other passes unchanged. A schema with keywords that zod does not
 * know (`not`, `if`) accepts any value.
 */
export function checkAgainst(jsonSchema: JsonObject): (value: unknown) => StandardSchemaV1.Result<unknown> {
  let checker: z.ZodType | undefined
  let isRead = false
  return (value) => {
    if (!isRead) {
      checker = readable(jsonSchema)
      isRead = true
    }
    const issues = checker?.safeParse(value).error?.issues
    return issues ? { issues } : { value }
  }
}

function readable(jsonSchema: JsonObject): z.ZodType | undefined {
  try {
    return z.fromJSONSchema(withoutFormats(jsonSchema) as z.core.JSONSchema.JSONSchema, { registry: z.registry() })
  } catch {
    return undefined
  }
}

/** Keywords whose members are named by the schema's author, not by JSON Schema. */
const NAMED = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])

/** In JSON Schema, a `format` is a comment, which zod would enforce. */
function withoutFormats(schema: unknown, isNamed = false): unknown {
  if (Array.isArray(schema)) return schema.map((part) => withoutFormats(part))
  if (!isObject(schema)) return schema
  const kept = Object.entries(schema).filter(([name]) => isNamed || name !== 'format')
  return Object.fromEntries(
    kept.map(([name, part]) => [name, isData(name, isNamed) ? part : withoutFormats(part, !isNamed && NAMED.has(name))]),
  )
}

/** Whether the keyword's value is data rather than a schema. */
function isData(name: string, isNamed: boolean): boolean {
  return !isNamed && ['const', 'enum', 'default', 'examples'].includes(name)
}
