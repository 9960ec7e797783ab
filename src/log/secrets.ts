// Decides which fields of a log line are secret: a built-in set of names, and those that the user adds.
import { InvalidOptionError } from '../options/errors.ts'

/** Whether the value at a path of names is a secret. Positions in lists are not part of the path. */
export type IsSecret = (path: readonly string[]) => boolean

/** Names are compared in lower case and without separators, so `api_key`, `x-api-key` and `stripeApiKey` all end with `apikey`. */
const SECRET_ENDINGS =
  /(?:password|passwd|passphrase|secret|token|apikey|accesskey|privatekey|secretkey|authorization|cookie|credential|cardnumber)s?$/
const SECRET_NAMES = new Set(['auth', 'cvc', 'cvv', 'jwt', 'otp', 'pass', 'pin', 'pwd'])
/** Names of counts, such as `maxTokens`. */
const NO_SECRET = /tokens$/

/** Dotted names. They need no wildcards or brackets, because a path applies at any depth. */
const PATH = /^[\w$-]+(?:\.[\w$-]+)*$/

/**
 * Recognises secrets by their names. `added`: additional names, such as `email`, or path endings, such as `customer.phone`; both apply at
 * any depth. @throws InvalidOptionError `invalid_option`.
 */
export function secretsBy(added: readonly string[]): IsSecret {
  const ends = new Map<string, string[][]>()
  for (const path of added) {
    if (!PATH.test(path)) throw new InvalidOptionError(`${JSON.stringify(path)} in redact or PAWL_LOG_REDACT is not a valid name. ${HOW}`)
    const names = path.split('.').map(plainName)
    const last = names.at(-1) ?? ''
    ends.set(last, [...(ends.get(last) ?? []), names])
  }
  return (path) => {
    const name = plainName(path.at(-1) ?? '')
    if (SECRET_NAMES.has(name) || (SECRET_ENDINGS.test(name) && !NO_SECRET.test(name))) return true
    return ends.get(name)?.some((names) => endsWith(path, names)) ?? false
  }
}

const HOW = "Use names such as 'email', or path endings such as 'customer.phone'; both apply at any depth."

function plainName(name: string): string {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
}

function endsWith(path: readonly string[], names: readonly string[]): boolean {
  const end = path.slice(-names.length)
  return end.length === names.length && end.every((name, i) => plainName(name) === names[i])
}
