// Values of users' code as plain JSON.
import type { Json } from '../session/json.ts'

/**
 * The value as JSON has it: what `JSON.stringify` drops is dropped, `undefined` as a whole is null.
 * @throws TypeError for what has no JSON form: circular values, BigInt.
 */
export function plainJson(value: unknown): Json {
  const text = JSON.stringify(value)
  return text === undefined ? null : (JSON.parse(text) as Json)
}
