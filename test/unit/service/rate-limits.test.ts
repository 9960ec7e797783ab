// The rate limits of `pawl serve`: what counts, and from whom.
import { describe, expect, it } from 'vitest'
import type { Access } from '../../../src/service/access.ts'
import { rateLimits } from '../../../src/service/rate-limits.ts'
import { codeOf } from '../../support/codes.ts'

const ANN: Access = { identity: 'ann', scopes: ['read'] }
const asAsync = async <T>(answer: T): Promise<T> => answer

/** Requests from addresses, of which the known caller ann sends some. */
function limits(perMinute: number) {
  const addresses = new WeakMap<Request, string>()
  const { limited, isSuspect } = rateLimits(perMinute, (request) => addresses.get(request) ?? '')
  const authorize = limited((request) => (request.headers.has('ann') ? ANN : null))
  const from = (address: string, headers: Record<string, string> = {}): Request => {
    const request = new Request('http://host/', { headers })
    addresses.set(request, address)
    return request
  }
  return { ask: (request: Request) => asAsync(authorize(request)), isSuspect, from }
}

describe('the rate limit of a caller', () => {
  it('the rate limit of a caller counts a request once, however often its stream is checked again', async () => {
    const { ask, from } = limits(2)
    const stream = from('10.0.0.1', { ann: '' })
    for (let n = 0; n < 10; n++) expect(await ask(stream)).toEqual(ANN)
    expect(await ask(from('10.0.0.1', { ann: '' }))).toEqual(ANN)
    expect(await codeOf(ask(from('10.0.0.2', { ann: '' })))).toBe('rate_limited')
    // The limit is no reason to end a stream that is open.
    expect(await ask(stream)).toEqual(ANN)
  })

  it('the rate limit of a caller is not touched by unknown credentials from the same address', async () => {
    const { ask, from } = limits(1)
    for (let n = 0; n < 60; n++) expect(await ask(from('10.0.0.1'))).toBeNull()
    expect(await codeOf(ask(from('10.0.0.1')))).toBe('rate_limited')
    expect(await ask(from('10.0.0.1', { ann: '' }))).toEqual(ANN)
  })
})

describe('an address', () => {
  it.each([
    ['10.0.0.1', '10.0.0.1', true],
    ['10.0.0.1', '10.0.0.2', false],
    ['2001:db8:1:2::7', '2001:db8:1:2:9:8:7:6', true],
    ['2001:db8:1:2::7', '2001:db8:1:3::7', false],
    ['2001:db8::7', '2001:db8:0:0:1::2', true],
    ['::ffff:10.0.0.1', '::ffff:10.0.0.2', false],
  ])('after unknown credentials from %s, the address %s counts as suspect, too: %s', async (one, other, expected) => {
    const { ask, isSuspect, from } = limits(0)
    for (let n = 0; n < 60; n++) await ask(from(one))
    expect(await isSuspect(from(one))).toBe(true)
    expect(await isSuspect(from(other))).toBe(expected)
  })
})
