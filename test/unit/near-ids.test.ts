// The ids that a command suggests for a mistyped one.
import { describe, expect, it } from 'vitest'
import { nearest } from '../../src/cli/near-ids.ts'

describe('a mistyped session id', () => {
  it('a mistyped session id matches those that differ in a letter or two, the nearest first', () => {
    expect(nearest('custmer-42', ['customer-43', 'customer-42', 'customer-7', 'customs'])).toEqual(['customer-42', 'customer-43'])
    expect(nearest('customer-24', ['customer-42'])).toEqual(['customer-42'])
  })

  it('a mistyped session id does not match one that differs in more letters, or a short one', () => {
    expect(nearest('customer-42', ['customer-4711', 'custody-1'])).toEqual([])
    expect(nearest('ab', ['xy', 'abc'])).toEqual([])
    expect(nearest('abc', ['abd'])).toEqual(['abd'])
  })
})
