// The JSON type of values that cross processes or are part of events, and how deep they may be nested.

/** Any value that survives `JSON.parse(JSON.stringify(value))` unchanged. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** A JSON object. */
export type JsonObject = { [key: string]: Json }

/** Whether the value is an object with members, not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

/** How deep a value may be nested. `JSON.stringify` overflows the stack at several thousand levels, and the workflow must not throw. */
export const MAX_DEPTH = 500

/** Whether a value is nested deeper than the given number of levels. */
export function isTooDeep(value: unknown, maxDepth = MAX_DEPTH): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return true
    level = level.flatMap((one) =>
      typeof one === 'object' && one !== null ? Object.values(one).filter((inner) => typeof inner === 'object') : [],
    )
  }
  return false
}

/**
 * A deep copy of plain objects and arrays. Cheaper than `structuredClone`: texts are shared, because nothing can change them. Anything else
 * (an instance of a class, such as a `Date`) is not JSON and is shared, too. A circular value overflows the stack.
 */
export function copyOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copyOf) as T
  if (!isPlain(value)) return value
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(value)) {
    const part = copyOf((value as Record<string, unknown>)[name])
    // An assignment would set the prototype.
    if (name === '__proto__') Object.defineProperty(copy, name, { value: part, enumerable: true, configurable: true, writable: true })
    else copy[name] = part
  }
  return copy as T
}

/** Whether the object was made by a literal or by `JSON.parse`, in any realm: a workflow has an `Object` of its own. */
function isPlain(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** UTF-8 bytes of a value's JSON. */
export function jsonBytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value) ?? '').length
}

/** A value of type `T` after a round trip through JSON: a date becomes text, for example. */
export type JsonOf<T> = unknown extends T
  ? T
  : T extends { toJSON(): infer R }
    ? JsonOf<R>
    : T extends string | number | boolean | null | undefined
      ? T
      : // oxlint-disable-next-line typescript/no-explicit-any -- any function
        T extends bigint | symbol | ((...args: any[]) => unknown)
        ? never
        : { [K in keyof T]: JsonOf<T[K]> }
