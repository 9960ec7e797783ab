// Canonical JSON and digests over it: by the library of RFC 8785's authors, and our own only for strings of which the RFC has no text.
import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import type { Json } from '../session/json.ts'

/**
 * RFC 8785 text of a JSON value. The library throws for strings with lone surrogates; models do write them, and two such strings must
 * not become one: then they are escaped as in JSON.
 */
export function canonicalJson(value: Json): string {
  try {
    return canonicalize(value) ?? 'null'
  } catch {
    return escaped(value)
  }
}

function escaped(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(escaped).join(',')}]`
  const members = Object.keys(value).toSorted()
  return `{${members.map((key) => `${JSON.stringify(key)}:${escaped(value[key] ?? null)}`).join(',')}}`
}

/** SHA-256 of UTF-8 text, hex. */
export function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}
