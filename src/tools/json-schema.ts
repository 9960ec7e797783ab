// Checks values against a JSON Schema that comes without code of its own.
import { createContext, Script } from 'node:vm'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { z } from 'zod'
import { isObject, type JsonObject } from '../session/json.ts'

/** An MCP server writes its schemas itself: one that takes for ever to check must not stop the other calls of its process. */
const MAX_MS = 1_000

/**
 * The check of a JSON Schema: a value that does not match has issues, any other passes unchanged. A schema that cannot be checked accepts
 * any value: one with keywords that zod does not know (`not`, `if`), with an endless reference, or whose check does not end in time.
 */
export function checkAgainst(jsonSchema: JsonObject): (value: unknown) => StandardSchemaV1.Result<unknown> {
  let checker: z.ZodType | undefined
  let isRead = false
  return (value) => {
    try {
      const issues = bounded(() => {
        if (!isRead) checker = readable(jsonSchema)
        return checker?.safeParse(value).error?.issues
      })
      isRead = true
      return issues ? { issues } : { value }
    } catch {
      isRead = true
      checker = undefined
      return { value }
    }
  }
}

function readable(jsonSchema: JsonObject): z.ZodType {
  return z.fromJSONSchema(withoutFormats(jsonSchema) as z.core.JSONSchema.JSONSchema, { registry: z.registry() })
}

const sandbox = createContext({ work: (): unknown => undefined })
const script = new Script('work()')

/** The result of the work, which is stopped after a while, even within a regular expression. @throws what it throws, or that it was stopped. */
function bounded<T>(work: () => T): T {
  sandbox.work = work
  try {
    return script.runInContext(sandbox, { timeout: MAX_MS }) as T
  } finally {
    sandbox.work = undefined as never
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
