// Values of users' code as plain JSON.
import { isTooDeep, type Json, MAX_DEPTH } from '../session/json.ts'

/**
 * The value as JSON has it: what `JSON.stringify` drops is dropped, `undefined` as a whole is null.
 * @throws TypeError for what has no JSON form (circular values, BigInt) or is nested too deep; RangeError for far too deep.
 */
export function plainJson(value: unknown): Json {
  const text = JSON.stringify(value)
  const plain = text === undefined ? null : (JSON.parse(text) as Json)
  if (isTooDeep(plain)) throw new TypeError(`it is nested deeper than ${MAX_DEPTH} levels`)
  return plain
}
