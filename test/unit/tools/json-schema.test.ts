// Checks of values by a JSON Schema that a server wrote: what they find, and schemas that cannot be checked.
import { describe, expect, it } from 'vitest'
import { checkAgainst } from '../../../src/tools/json-schema.ts'

describe('the check of a JSON Schema', () => {
  it('the check of a JSON Schema says what does not match, and changes nothing', () => {
    const check = checkAgainst({ type: 'object', properties: { code: { type: 'string', pattern: '^[A-Z]{3}$' } }, required: ['code'] })
    expect(check({ code: 'EUR', more: 1 })).toEqual({ value: { code: 'EUR', more: 1 } })
    expect(check({ code: 'euro' })).toMatchObject({ issues: [{ path: ['code'] }] })
    expect(check({})).toMatchObject({ issues: [{ path: ['code'] }] })
  })

  it.each<[string, object, object]>([
    // Of each letter, the expression tries whether another group begins there.
    ['a pattern that takes years', { properties: { a: { type: 'string', pattern: '^(a+)+$' } } }, { a: `${'a'.repeat(60)}!` }],
    ['alternatives of alternatives', { properties: { a: { $ref: '#/$defs/d0' } }, $defs: alternatives(60) }, { a: 1 }],
    ['a reference to itself', { allOf: [{ $ref: '#' }] }, { a: 1 }],
    ['a pattern that is not one', { properties: { a: { type: 'string', pattern: '(' } } }, { a: 'a' }],
    ['a schema nested a million deep', deep(1_000_000), { a: 1 }],
  ])('the check of a JSON Schema ends, and accepts the value, for %s', { timeout: 60_000 }, (_, schema, value) => {
    const check = checkAgainst({ type: 'object', ...schema } as never)
    for (let times = 0; times < 2; times++) expect(check(value)).toEqual({ value })
  })
})

function alternatives(depth: number): object {
  const next = (n: number): object =>
    n === depth - 1 ? { type: 'string' } : { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] }
  return Object.fromEntries(Array.from({ length: depth }, (_, n) => [`d${n}`, next(n)]))
}

function deep(levels: number): object {
  let schema: object = { type: 'string' }
  for (let n = 0; n < levels; n++) schema = { type: 'object', properties: { a: schema } }
  return schema
}
