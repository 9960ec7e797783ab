// Requests with API keys: `Authorization: Bearer pawl_…`, or `X-Api-Key`.
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ApiKey } from '../client/admin/api-keys.ts'
import type { Pawl } from '../client/pawl.ts'
import { StoreError } from '../connect/errors.ts'
import type { Access, Authorize } from './access.ts'

/** A key that was looked for, and when. */
interface Looked {
  at: number
  key: ApiKey | null
}

/** A revocation takes so long to arrive. */
const GOOD_FOR_MS = 10_000
/** While the side store is away, keys that were valid stay so: sessions go on without it, and so should their clients. */
const GOOD_WITHOUT_STORE_MS = 10 * 60_000
const MAX_KEYS = 10_000

/**
 * An `authorize` by the deployment's API keys (`pawl keys create`, `pawl.apiKeys`). A key that was revoked is refused within 10 seconds.
 * While the side store is away, keys that were valid less than 10 minutes ago are.
 */
export function apiKeyAuthorize(pawl: Pick<Pawl, 'apiKeys'>): Authorize {
  /** By digest: a dump of the process has no keys. */
  const known = new LRUCache<string, Looked>({ max: MAX_KEYS })

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
