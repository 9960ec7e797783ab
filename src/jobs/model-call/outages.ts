// Recognises errors of user code that mean that something outside is temporarily unavailable. Any other error that is not a ModelError is
// unexpected.

const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENETDOWN',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])
const STATUSES = new Set([408, 409, 425, 429])
/** How deep a chain of causes is followed. */
const MAX_CAUSES = 5

/** Whether the error, or one that caused it, is a lost connection, a timeout, or an HTTP status that suggests another attempt. */
export function isOutage(error: unknown): boolean {
  let one = error
  for (let depth = 0; depth < MAX_CAUSES && typeof one === 'object' && one !== null; depth++) {
    const { name, code, status, statusCode, cause, errors } = membersOf(one)
    if (name === 'TimeoutError') return true
    if (typeof code === 'string' && (NETWORK.has(code) || code.startsWith('UND_ERR_'))) return true
    if ([status, statusCode].some((number) => typeof number === 'number' && (STATUSES.has(number) || number >= 500))) return true
    // Node reports a host with several addresses as an AggregateError.
    one = cause ?? (Array.isArray(errors) ? errors[0] : undefined)
  }
  return false
}

/** An error may throw when it is read. */
function membersOf(error: object): Record<string, unknown> {
  try {
    const { name, code, status, statusCode, cause, errors } = error as Record<string, unknown>
    return { name, code, status, statusCode, cause, errors }
  } catch {
    return {}
  }
}
