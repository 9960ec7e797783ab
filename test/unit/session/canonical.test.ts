// Canonical JSON: which values have the same text.
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../../src/session/canonical.ts'
import { sha256Hex } from '../../../src/agent/sha256.ts'
import type { Json } from '../../../src/session/json.ts'

/** Any JSON value, lone surrogates included. */
const anyJson = fc.jsonValue({
  stringUnit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
}) as fc.Arbitrary<Json>
/** Any JSON value that can be written in UTF-8. */
const unicodeJson = fc.jsonValue({ stringUnit: 'binary' }) as fc.Arbitrary<Json>

/** The same value with the members of its objects in another order. */
function reversed(value: Json): Json {
  if (Array.isArray(value)) return value.map(reversed)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, one]) => [key, reversed(one)]),
  )
}

describe('canonical JSON', () => {
  it('canonical JSON sorts members by their UTF-16 code units at every depth', () => {
    expect(canonicalJson({ b: 1, a: [{ d: null, c: true }], '\u{1F600}': 0, '\uFB33': 0, '10': 0, '9': 0 })).toBe(
      '{"10":0,"9":0,"a":[{"c":true,"d":null}],"b":1,"\u{1F600}":0,"\uFB33":0}',
    )
  })

  it('canonical JSON writes numbers and strings as RFC 8785 specifies', () => {
    expect(canonicalJson([1e30, 4.5, 0.002, 1e-27, -0, 333333333.3333333])).toBe('[1e+30,4.5,0.002,1e-27,0,333333333.3333333]')
    expect(canonicalJson('\u20ac$\u000f\nA\'B"\\"/')).toBe('"\u20ac$\\u000f\\nA\'B\\"\\\\\\"/"')
  })

  it('canonical JSON follows the RFC for every value that UTF-8 can encode, even next to one that it cannot', () => {
    fc.assert(
      fc.property(unicodeJson, (value) => {
        expect(canonicalJson(value)).toBe(canonicalize(value))
        expect(canonicalJson([value, '\ud800'])).toBe(`[${canonicalize(value)},"\\ud800"]`)
      }),
    )
  })

  it('canonical JSON represents the same value, and does not depend on the order of the members', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const text = canonicalJson(value)
        expect(JSON.stringify(reversed(JSON.parse(text) as Json))).toBe(
          JSON.stringify(reversed(JSON.parse(JSON.stringify(sorted(value))) as Json)),
        )
        expect(canonicalJson(reversed(value))).toBe(text)
      }),
    )
  })

  it('canonical JSON distinguishes lone surrogates, which UTF-8 cannot encode', () => {
    const texts = ['\ud800', '\ud801', '\udc00', '\ufffd', '\\ud800'].map(canonicalJson)
    expect(new Set(texts).size).toBe(5)
    expect(new Set(texts.map(sha256Hex)).size).toBe(5)
    expect(canonicalJson({ '\ud800': 1 })).toBe('{"\\ud800":1}')
  })

  it('canonical JSON keeps a member that is named __proto__', () => {
    expect(canonicalJson(JSON.parse('{"__proto__":{"b":1,"a":2}}') as Json)).toBe('{"__proto__":{"a":2,"b":1}}')
  })
})

/** The same value with the members of its objects sorted. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, one]) => [key, sorted(one)]),
  )
}
