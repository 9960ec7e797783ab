// Canonical JSON (RFC 8785) and digests over it.
import { createHash } from 'node:crypto'
import type { Json } from '../session/json.ts'

/**
 * RFC 8785 text of a JSON value. Where the RFC has no text, for strings with lone surrogates, these are escaped as in JSON: models
 * do write them, and two such strings must not become one.
 */
export function canonicalJson(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.keys(value).toSorted()
  return `{${members.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`).join(',')}}`
}

/** SHA-256 of UTF-8 text, hex. */
export function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}
