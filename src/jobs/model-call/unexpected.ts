// Tells whether two errors unknown to pawl are the same. It compares the class, the code and the line that threw the error. It ignores the
// text, which may contain a different request id each time.
import { shortHash } from '../../session/digest.ts'
import { placeOf } from '../stack.ts'

/** The part of a path that depends on where the project or a package is installed: all folders but the last. */
const INSTALLED_AT = /^.*?(?=[^\\/]+[\\/][^\\/]+$)/

/**
 * Digest of an unexpected error. Errors of one class thrown by the same line of the user's code or a library have the same digest. Values
 * without a stack are identified by their text, without numbers and ids that contain digits.
 */
export function unexpectedDigest(error: unknown): string {
  const { name, code, message } = partsOf(error)
  const where = placeOf(error)?.replace(INSTALLED_AT, '') ?? message.replace(/[0-9a-f]*\d[0-9a-f]*/gi, '#')
  return shortHash(`${name}\n${code}\n${where}`)
}

/** Any value may be thrown, even one that throws when it is read. */
function partsOf(error: unknown): Record<'name' | 'code' | 'message', string> {
  try {
    if (!(error instanceof Error)) return { name: typeof error, code: '', message: String(error) }
    const { name, message } = error
    return { name: String(name), code: String((error as { code?: unknown }).code), message: String(message) }
  } catch {
    return { name: 'unreadable', code: '', message: '' }
  }
}
