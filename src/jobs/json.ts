// Converts values of user code to plain JSON.
import { isTooDeep, type Json, MAX_DEPTH } from '../session/json.ts'

/**
 * The value after a round trip through JSON: members that `JSON.stringify` drops are dropped, and `undefined` becomes null.
 * @throws TypeError for a value without a JSON form (circular values, BigInt) or nested too deep; RangeError if the nesting exceeds the
 * call stack.
 */
export function plainJson(value: unknown): Json {
  const text = JSON.stringify(value)
  const plain = text === undefined ? null : (JSON.parse(text) as Json)
  if (isTooDeep(plain)) throw new TypeError(`it is nested deeper than ${MAX_DEPTH} levels`)
  return plain
}
