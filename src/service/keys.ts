// Requests with API keys: `Authorization: Bearer pawl_…`, or `X-Api-Key`.
import { createHash, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type ApiKey, isApiKey, type ApiKeys, SCOPES } from '../client/admin/api-keys.ts'
import type { Pawl } from '../client/pawl.ts'
import { StoreError } from '../connect/errors.ts'
import type { Access, Authorize } from './access.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from './errors.ts'

/** How long a lookup is cached. A revoked key may still be accepted for this long. */
const GOOD_FOR_MS = 10_000

/** While the side store is unavailable, keys that were valid stay valid: sessions continue without it, and so should their clients. */
const GOOD_WITHOUT_STORE_MS = 10 * 60_000

const MAX_KEYS = 10_000

const MAX_UNKNOWN = 10_000

/** A key that was never seen before waits up to this long if its address has sent many unknown keys. */
const SUSPECT_PAUSE_MS = 1_000

/**
 * Returns an `authorize` that checks the deployment's API keys (`pawl keys create`, `pawl.apiKeys`). A revoked key is refused within
 * 10 seconds. While the side store is unavailable, keys that were valid less than 10 minutes ago are accepted.
 */
export function apiKeyAuthorize(pawl: Pick<Pawl, 'apiKeys'>): Authorize {
  return keyAuthorize(pawl, { isSuspect: async () => false })
}

/** Accepts one key, whose holder may do everything: that of a server on the developer's own machine. */
export function ownKeyAuthorize(own: string, otherKey: (request: Request) => string | undefined): Authorize {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return (request) => {
    const text = textIn(request) ?? otherKey(request)
    if (text === undefined || !timingSafeEqual(digest(text), digest(own))) return null
    return { identity: 'developer', scopes: SCOPES }
  }
}

interface KeyRules {
  /** Whether many unknown keys have come from the request's address. */
  isSuspect(request: Request): Promise<boolean>
  /** Another place of the key in a request. */
  otherKey?(request: Request): string | undefined
}

/** The same, by these rules. */
export function keyAuthorize({ apiKeys }: Pick<Pawl, 'apiKeys'>, { isSuspect, otherKey }: KeyRules): Authorize {
  // Keyed by digest, so that a memory dump of the process contains no keys. Cached separately, so that unknown keys do not evict valid
  // ones.
  const valid = new LRUCache<string, { at: number; key: ApiKey }>({ max: MAX_KEYS })
  const unknown = new LRUCache<string, { at: number }>({ max: MAX_UNKNOWN })
  const find = sharedLookups(apiKeys, 0)
  const findForSuspect = sharedLookups(apiKeys, SUSPECT_PAUSE_MS)

  async function keyFor(text: string, request: Request): Promise<ApiKey | null> {
    if (!isApiKey(text)) return null
    const digest = createHash('sha256').update(text).digest('hex')
    const before = valid.get(digest)
    if (before && isNewer(before, GOOD_FOR_MS)) return before.key
    const refused = unknown.get(digest)
    if (refused && isNewer(refused, GOOD_FOR_MS)) return null
    const lookUp = !before && (await isSuspect(request)) ? findForSuspect : find
    try {
      return keep(digest, await lookUp(text))
    } catch (error) {
      const isAway = error instanceof StoreError && error.code === 'store_unavailable'
      if (isAway && before && isNewer(before, GOOD_WITHOUT_STORE_MS)) return before.key
      throw error
    }
  }

  function keep(digest: string, key: ApiKey | null): ApiKey | null {
    const at = performance.now()
    if (key) valid.set(digest, { at, key })
    else {
      valid.delete(digest)
      unknown.set(digest, { at })
    }
    return key
  }

  return async (request) => {
    const text = textIn(request) ?? otherKey?.(request)
    const key = text === undefined ? null : await keyFor(text, request)
    return key && accessOf(key)
  }
}

function isNewer({ at }: { at: number }, ms: number): boolean {
  return performance.now() - at < ms
}

function textIn({ headers }: Request): string | undefined {
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '') ?? []
  return bearer ?? headers.get('x-api-key') ?? undefined
}

function accessOf({ name, scopes, roles, tenant, context }: ApiKey): Access {
  return { identity: `key:${name}`, scopes, roles, ...(tenant !== null && { tenant }), ...(context !== null && { context }) }
}

/** Looks a key up; null if it is not valid. @throws ServiceError `rate_limited`; StoreError. */
type Lookup = (text: string) => Promise<ApiKey | null>

const MAX_WAITING = 1_000

/**
 * Lookups that share statements: those that arrive while one runs wait for the next. `pauseMs`: the shortest time between two statements.
 * However many unknown keys a client sends, Postgres runs one statement at a time.
 */
function sharedLookups(keys: Pick<ApiKeys, 'findAll'>, pauseMs: number): Lookup {
  let next: { texts: Set<string>; found: Promise<Map<string, ApiKey>> } | undefined
  let running: Promise<unknown> = Promise.resolve()

  function begin(): NonNullable<typeof next> {
    const texts = new Set<string>()
    const found = running.then(async () => {
      next = undefined
      return keys.findAll([...texts])
    })
    running = found.catch(() => undefined).then(() => (pauseMs > 0 ? sleep(pauseMs, undefined, { ref: false }) : undefined))
    return { texts, found }
  }

  return async (text) => {
    next ??= begin()
    const { texts, found } = next
    if (texts.size >= MAX_WAITING) throw tooManyUnknown()
    texts.add(text)
    return (await found).get(text) ?? null
  }
}

function tooManyUnknown(): ServiceError {
  return new ServiceError(
    'rate_limited',
    429,
    'Too many unknown keys were sent from your address. Send the request again in a few seconds.',
    {
      headers: { 'retry-after': '5' },
    },
  )
}
