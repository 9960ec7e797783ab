// Requests with API keys: who sent them, and for how long a key is known.
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ApiKey, ApiKeys } from '../../../src/client/admin/api-keys.ts'
import { StoreError } from '../../../src/connect/errors.ts'
import { keyAuthorize } from '../../../src/service/keys.ts'
import { codeOf } from '../../support/codes.ts'
import { gate, until } from '../../support/until.ts'

const KEY: ApiKey = {
  id: '0123456789ab',
  name: 'web',
  scopes: ['read', 'send'],
  roles: ['finance'],
  tenant: 'acme',
  context: { tenantId: 'acme' },
  createdAt: new Date(0),
  createdBy: null,
  revokedAt: null,
  revokedBy: null,
}

const textOf = (secret: string): string => `pawl_0123456789ab_${secret.padEnd(43, '_')}`
const [GOOD, BAD, OTHER] = [textOf('good'), textOf('bad'), textOf('other')]
const unknownKey = (): string => `pawl_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('base64url')}`

/** Keys of a store that can be away, with one valid key. */
function keys({ isSuspect = false } = {}) {
  const store = { asked: 0, away: false, valid: true, slow: Promise.resolve() }
  const findAll: ApiKeys['findAll'] = async (texts) => {
    store.asked += 1
    await store.slow
    if (store.away) throw new StoreError('store_unavailable', 'It is away.')
    return new Map(store.valid && texts.includes(GOOD) ? [[GOOD, KEY]] : [])
  }
  const authorize = keyAuthorize({ apiKeys: { findAll } as ApiKeys }, { isSuspect: async () => isSuspect })
  const as = (headers: Record<string, string>) => Promise.resolve(authorize(new Request('http://host/', { headers })))
  return { store, as, bearer: (key: string) => as({ authorization: `Bearer ${key}` }) }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

describe('the caller of a request', () => {
  it('the caller of a request is the owner of its key, in either header', async () => {
    const access = { identity: 'key:web', scopes: ['read', 'send'], roles: ['finance'], tenant: 'acme', context: { tenantId: 'acme' } }
    const { as, bearer } = keys()
    expect(await bearer(GOOD)).toEqual(access)
    expect(await as({ 'x-api-key': GOOD })).toEqual(access)
  })

  it('the caller of a request is unknown without a key, or with one that is not valid', async () => {
    const { as, bearer } = keys()
    expect(await as({})).toBeNull()
    expect(await bearer(BAD)).toBeNull()
    expect(await as({ authorization: `Basic ${GOOD}` })).toBeNull()
  })

  it('the caller of a request is looked up in the store once every ten seconds', async () => {
    const { store, bearer } = keys()
    for (let n = 0; n < 5; n++) await Promise.all([bearer(GOOD), bearer(BAD)])
    await bearer(GOOD)
    expect(store.asked).toBeLessThanOrEqual(4)
    store.valid = false
    vi.advanceTimersByTime(10_001)
    expect(await bearer(GOOD)).toBeNull()
  })

  it('a caller is known for ten minutes while the store is away; an unseen key is not refused, but cannot be checked', async () => {
    const { store, bearer } = keys()
    await bearer(GOOD)
    store.away = true
    vi.advanceTimersByTime(9 * 60_000)
    expect(await bearer(GOOD)).toMatchObject({ identity: 'key:web' })
    expect(await codeOf(bearer(OTHER))).toBe('store_unavailable')
    vi.advanceTimersByTime(2 * 60_000)
    expect(await codeOf(bearer(GOOD))).toBe('store_unavailable')
  })
})

describe('unknown keys', () => {
  it('unknown keys are refused without a query if they do not have the form of a key', async () => {
    const { store, bearer } = keys()
    for (const text of ['x', GOOD.slice(1), `${GOOD}x`, GOOD.toUpperCase()]) expect(await bearer(text)).toBeNull()
    expect(store.asked).toBe(0)
  })

  it('unknown keys never evict a valid key from the cache, however many there are', async () => {
    const { store, bearer } = keys()
    await bearer(GOOD)
    for (let n = 0; n < 100; n++) await Promise.all(Array.from({ length: 150 }, () => bearer(unknownKey())))
    store.away = true
    vi.advanceTimersByTime(60_000)
    expect(await bearer(GOOD)).toMatchObject({ identity: 'key:web' })
  })

  it('unknown keys share the statements that look them up: the store answers one at a time', async () => {
    const { store, bearer } = keys()
    const slow = gate()
    store.slow = slow.pass()
    const first = bearer(unknownKey())
    await until('the first is looked up', () => store.asked === 1)
    const others = [bearer(GOOD), ...Array.from({ length: 500 }, () => bearer(unknownKey()))]
    slow.open()
    expect(await first).toBeNull()
    expect((await Promise.all(others)).filter((access) => access !== null)).toHaveLength(1)
    expect(store.asked).toBe(2)
  })

  it('many unknown keys from one address cost one statement a second, and a valid key from there is still found', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const { store, bearer } = keys({ isSuspect: true })
    expect(await bearer(unknownKey())).toBeNull()
    const answers = await Promise.all([bearer(GOOD), ...Array.from({ length: 300 }, () => bearer(unknownKey()))])
    expect(answers.filter((access) => access !== null)).toHaveLength(1)
    expect(store.asked).toBe(2)
    const many = Array.from({ length: 1_001 }, () => codeOf(bearer(unknownKey())))
    expect(await many[1_000]).toBe('rate_limited')
  })
})
