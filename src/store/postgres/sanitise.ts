// Makes values safe that Postgres cannot hold in text and jsonb (NUL bytes, lone surrogates, deep nesting), and keeps the exact value.
import { shortHash } from '../../session/digest.ts'
import type { Json } from '../../session/json.ts'

/** A lone surrogate; with the flag `u`, a pair counts as one character and does not match. */
const UNSAFE = /\0|\p{Surrogate}/gu
const REPLACEMENT = '\uFFFD'
/** Up to three identifiers are in one index, and Postgres limits index rows to 2,700 bytes. */
const MAX_KEY_BYTES = 500
/** Maximum nesting in jsonb: Postgres parses recursively, within its `max_stack_depth`. */
const MAX_DEPTH = 2_000
const TOO_DEEP = JSON.stringify(`[nested deeper than ${MAX_DEPTH} levels]`)

/** Free text that Postgres can hold. */
function safeText(value: string): string {
  return value.replace(UNSAFE, REPLACEMENT)
}

/** An identifier that Postgres can hold and index: different ones stay different, and ordinary ones stay unchanged. */
export function safeKey(value: string): string {
  const safe = safeText(value)
  const bytes = Buffer.from(safe)
  if (safe === value && bytes.length <= MAX_KEY_BYTES) return value
  // A split character becomes a replacement character.
  return `${bytes.subarray(0, MAX_KEY_BYTES).toString()}~${shortHash(value)}`
}

/** `JSON.stringify` without the stack's limit: the built-in fails at several thousand levels. */
export function jsonText(value: Json): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return deepJsonText(value)
  }
}

/** The JSON text `text` of `value` as jsonb can hold it. */
function safeJson(value: Json, text: string): string {
  return text.length > 2 * MAX_DEPTH && isDeeperThan(value, MAX_DEPTH) ? TOO_DEEP : withoutUnsafeEscapes(text)
}

/** Replaces the escapes that Postgres refuses in jsonb. JSON.stringify escapes only lone surrogates. */
export function withoutUnsafeEscapes(text: string): string {
  if (!/\\u(?:0000|d[89a-f])/.test(text)) return text
  // Every escape is matched, so that the `\\` of an escaped backslash is not mistaken for the start of one.
  return text.replace(/\\(?:(u0000|ud[89a-f][0-9a-f]{2})|.)/g, (escape, unsafe) => (unsafe === undefined ? escape : REPLACEMENT))
}

function isDeeperThan(value: Json, limit: number): boolean {
  let level: Json[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return true
    level = level.flatMap((one) => (one !== null && typeof one === 'object' ? Object.values(one) : []))
  }
  return false
}

function deepJsonText(root: Json): string {
  const text: string[] = []
  const todo: ({ write: string } | { value: Json })[] = [{ value: root }]
  for (let next = todo.pop(); next; next = todo.pop()) {
    if ('write' in next) {
      text.push(next.write)
      continue
    }
    const { value } = next
    if (value === null || typeof value !== 'object') {
      text.push(JSON.stringify(value))
      continue
    }
    const isArray = Array.isArray(value)
    const members = Object.entries(value).flatMap(([key, member], index) => [
      { write: `${index === 0 ? '' : ','}${isArray ? '' : `${JSON.stringify(key)}:`}` },
      { value: member },
    ])
    text.push(isArray ? '[' : '{')
    todo.push({ write: isArray ? ']' : '}' }, ...members.reverse())
  }
  return text.join('')
}

/** Makes the values of one row safe and remembers whether any was changed. */
export interface Sanitiser {
  key<T extends string | null>(value: T): T | string
  text<T extends string | null>(value: T): T | string
  json(value: Json): string
  /** The exact values as JSON text if any of them was changed, otherwise null. */
  raw(exact: Json): string | null
}

/** A sanitiser for one row. */
export function sanitiser(): Sanitiser {
  let changed = false
  const noting = <T>(before: T, after: T): T => {
    changed ||= before !== after
    return after
  }
  return {
    key: (value) => (value === null ? value : noting<string>(value, safeKey(value))),
    text: (value) => (value === null ? value : noting<string>(value, safeText(value))),
    json(value) {
      const text = jsonText(value)
      return noting(text, safeJson(value, text))
    },
    raw: (exact) => (changed ? jsonText(exact) : null),
  }
}
