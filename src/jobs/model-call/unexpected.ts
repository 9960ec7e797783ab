// Tells whether two errors that pawl does not know are the same: by their class, code, and the line that threw them, never by their text,
// in which the id of a request may differ each time.
import { shortHash } from '../../session/digest.ts'

/** One line of a stack that names a place in a file. Node's own code has no path: its places start with `node:`. */
const PLACE = /^\s+at (?:.*\()?(?!node:)((?:file:\/\/|\/|[a-z]:[\\/]|\\\\).*?:\d+:\d+)\)?$/im
/** What changes from process to process: where the project or a package is installed, and the query by which a module is loaded again. */
const INSTALLED_AT = /^.*?(?=[^\\/]+[\\/][^\\/]+$)/
const QUERY = /\?[^:]*(?=:\d+:\d+$)/

/**
 * Digest of an unexpected error. Errors of one class that are thrown by the same line of the user's code, or of a library, have the same
 * one. What has no stack is told by its text, without numbers and ids that contain one.
 */
export function unexpectedDigest(error: unknown): string {
  const { name, code, message, stack } = partsOf(error)
  const place = PLACE.exec(stack.replace(message, ''))?.[1]
  const where = place?.replace(QUERY, '').replace(INSTALLED_AT, '') ?? message.replace(/[0-9a-f]*\d[0-9a-f]*/gi, '#')
  return shortHash(`${name}\n${code}\n${where}`)
}

/** Any value may be thrown, even one that throws when it is read. */
function partsOf(error: unknown): Record<'name' | 'code' | 'message' | 'stack', string> {
  try {
    if (!(error instanceof Error)) return { name: typeof error, code: '', message: String(error), stack: '' }
    const { name, message, stack } = error
    return { name: String(name), code: String((error as { code?: unknown }).code), message: String(message), stack: String(stack) }
  } catch {
    return { name: 'unreadable', code: '', message: '', stack: '' }
  }
}
