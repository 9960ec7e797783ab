// The arguments of a recorded call in a request, where providers accept only objects.
import { isObject, type Json, type JsonObject } from '../session/json.ts'

/** Returns an object unchanged, and wraps other arguments as Anthropic's documentation recommends. */
export function argumentsObject(input: Json): JsonObject {
  if (isObject(input)) return input
  return { INVALID_JSON: typeof input === 'string' ? input : JSON.stringify(input) }
}
