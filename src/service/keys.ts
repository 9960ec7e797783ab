// Requests with API keys: `Authorization: Bearer pawl_…`, or `X-Api-Key`.
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ApiKey } from '../client/admin/api-keys.ts'
import type { Pawl } from '../client/pawl.ts'
import { StoreError } from '../connect/errors.ts'
import type { Access, Authorize } from './access.ts'

/** The result of a key's lookup, and when it was made. */
interface Lookup {
  at: number
  key: ApiKey | null
}

/** How long a lookup is cached. A revoked key may still be accepted for this long. */
const GOOD_FOR_MS = 10_000
/** While the side store is unavailable, keys that were valid stay valid: sessions continue without it, and so should their clients. */
const GOOD_WITHOUT_STORE_MS = 10 * 60_000
const MAX_KEYS = 10_000

/**
 * Returns an `authorize` that checks the deployment's API keys (`pawl keys create`, `pawl.apiKeys`). A revoked key is refused within
 * 10 seconds. While the side store is unavailable, keys that were valid less than 10 minutes ago are accepted.
 */
export function apiKeyAuthorize(pawl: Pick<Pawl, 'apiKeys'>): Authorize {
  /** Keyed by digest, so that a memory dump of the process contains no keys. */
  const known = new LRUCache<string, Lookup>({ max: MAX_KEYS })

  async function find(text: string): Promise<ApiKey | null> {
    const digest = createHash('sha256').update(text).digest('hex')
    const before = known.get(digest)
    const age = before ? performance.now() - before.at : Number.POSITIVE_INFINITY
    if (before && age < GOOD_FOR_MS) return before.key
    try {
      const key = await pawl.apiKeys.find(text)
      known.set(digest, { at: performance.now(), key })
      return key
    } catch (error) {
      const isAway = error instanceof StoreError && error.code === 'store_unavailable'
      if (isAway && before?.key && age < GOOD_WITHOUT_STORE_MS) return before.key
      throw error
    }
  }

  return async (request) => {
    const text = textIn(request)
    const key = text === undefined ? null : await find(text)
    return key && accessOf(key)
  }
}

function textIn({ headers }: Request): string | undefined {
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '') ?? []
  return bearer ?? headers.get('x-api-key') ?? undefined
}

function accessOf({ name, scopes, tenant, context }: ApiKey): Access {
  return { identity: `key:${name}`, scopes, ...(tenant !== null && { tenant }), ...(context !== null && { context }) }
}
