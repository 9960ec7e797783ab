// Requests with API keys: who sent them, and for how long a key is known.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ApiKey, ApiKeys } from '../../../src/client/admin/api-keys.ts'
import { StoreError } from '../../../src/connect/errors.ts'
import { apiKeyAuthorize } from '../../../src/service/keys.ts'
import { codeOf } from '../../support/codes.ts'

const KEY: ApiKey = {
  id: '0123456789ab',
  name: 'web',
  scopes: ['read', 'send'],
  tenant: 'acme',
  context: { tenantId: 'acme' },
  createdAt: new Date(0),
  createdBy: null,
  revokedAt: null,
  revokedBy: null,
}

/** Keys of a store that can be away, with one valid key. */
function keys() {
  const store = { asked: 0, away: false, valid: true }
  const find: ApiKeys['find'] = async (text) => {
    store.asked += 1
    if (store.away) throw new StoreError('store_unavailable', 'It is away.')
    return text === 'good' && store.valid ? KEY : null
  }
  const authorize = apiKeyAuthorize({ apiKeys: { find } as ApiKeys })
  const as = (headers: Record<string, string>) => Promise.resolve(authorize(new Request('http://host/', { headers })))
  return { store, as, bearer: (key: string) => as({ authorization: `Bearer ${key}` }) }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

describe('the caller of a request', () => {
  it('is the owner of its key, in either header', async () => {
    const access = { identity: 'key:web', scopes: ['read', 'send'], tenant: 'acme', context: { tenantId: 'acme' } }
    const { as, bearer } = keys()
    expect(await bearer('good')).toEqual(access)
    expect(await as({ 'x-api-key': 'good' })).toEqual(access)
  })

  it('is unknown without a key, or with one that is not valid', async () => {
    const { as, bearer } = keys()
    expect(await as({})).toBeNull()
    expect(await bearer('bad')).toBeNull()
    expect(await as({ authorization: 'Basic good' })).toBeNull()
  })

  it('is looked up in the store once every ten seconds', async () => {
    const { store, bearer } = keys()
    for (let n = 0; n < 5; n++) await Promise.all([bearer('good'), bearer('bad')])
    await bearer('good')
    expect(store.asked).toBeLessThanOrEqual(4)
    store.valid = false
    vi.advanceTimersByTime(10_001)
    expect(await bearer('good')).toBeNull()
  })

  it('is still known for ten minutes while the store is away; an unseen key is not refused, but cannot be checked', async () => {
    const { store, bearer } = keys()
    await bearer('good')
    store.away = true
    vi.advanceTimersByTime(9 * 60_000)
    expect(await bearer('good')).toMatchObject({ identity: 'key:web' })
    expect(await codeOf(bearer('another'))).toBe('store_unavailable')
    vi.advanceTimersByTime(2 * 60_000)
    expect(await codeOf(bearer('good'))).toBe('store_unavailable')
  })
})
