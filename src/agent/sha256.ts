// SHA-256 as Node has it: the workflow's sandbox does without.
import { createHash } from 'node:crypto'

/** SHA-256 of UTF-8 text, hex. */
export function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}
