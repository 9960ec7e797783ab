// Canonical JSON (RFC 8785) and digests over it.
import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import type { Json } from '../session/json.ts'

/** RFC 8785 text of a JSON value. */
export function canonicalJson(value: Json): string {
  return canonicalize(value) as string
}

/** SHA-256 of UTF-8 text, hex. */
export function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}
