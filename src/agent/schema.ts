// The JSON form of a zod schema, and its digest.
import { z } from 'zod'
import type { JsonObject } from '../session/json.ts'
import { canonicalJson, sha256Hex } from './canonical.ts'
import { DeclarationError } from './errors.ts'

/** Whether it is a zod schema, of whichever copy of zod. */
export function isSchema(value: unknown): boolean {
  return typeof (value as z.ZodType | undefined)?.safeParseAsync === 'function'
}

/**
 * The JSON Schema of a tool's input and its digest.
 * @throws DeclarationError `no_json_schema`.
 */
export function inputSchemaOf(schema: z.ZodType, what: string): { inputSchema: JsonObject; schemaDigest: string } {
  let inputSchema: JsonObject
  try {
    inputSchema = z.toJSONSchema(schema, { io: 'input' }) as JsonObject
  } catch (cause) {
    throw new DeclarationError(
      'no_json_schema',
      `${what} has no JSON form (${cause instanceof Error ? cause.message : String(cause)}): use types that JSON has, and parse dates and the like in execute.`,
      { cause },
    )
  }
  if (inputSchema.type !== 'object') {
    throw new DeclarationError('no_json_schema', `${what} is not an object: wrap it in z.object({ … }).`)
  }
  return { inputSchema, schemaDigest: sha256Hex(canonicalJson(inputSchema)).slice(0, 16) }
}
