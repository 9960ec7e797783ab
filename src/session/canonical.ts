// Canonical JSON. The library by the authors of RFC 8785 does most of the work; our own code handles only strings that the
// RFC excludes.
import canonicalize from 'canonicalize'
import type { Json } from './json.ts'

/**
 * RFC 8785 text of a JSON value. The library throws for strings with lone surrogates. Models do write them, and two different strings must
 * not become the same text, so this escapes them as in JSON.
 */
export function canonicalJson(value: unknown): string {
  try {
    return canonicalize(value) ?? 'null'
  } catch {
    // Members without a value are left out, as the library does.
    return escaped(JSON.parse(JSON.stringify(value)) as Json)
  }
}

function escaped(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(escaped).join(',')}]`
  const members = Object.keys(value).toSorted()
  return `{${members.map((key) => `${JSON.stringify(key)}:${escaped(value[key] ?? null)}`).join(',')}}`
}
