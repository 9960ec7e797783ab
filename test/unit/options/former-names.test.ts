// Programs from the time when the names of durations included the unit.
import { defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import { describe, expect, it } from 'vitest'
import { checkOptions, duration, options } from '../../../src/options/check.ts'

const WAIT = options({ timeout: duration({ example: '60s' }).optional() })

describe('a duration under its former name, which included a unit', () => {
  it('is read as milliseconds', () => {
    expect(checkOptions(WAIT, { timeoutMs: 5_000 })).toEqual({ timeout: 5_000 })
    const model = scripted(() => 'hi')
    const { retry } = defineAgent({ name: 'a', instructions: '', model, retry: { baseDelayMs: 50 } as object })
    expect(retry.baseDelayMs).toBe(50)
  })

  it('is refused if it is not a former name, or not a number', () => {
    expect(() => checkOptions(WAIT, { timeoutMs: '5s' })).toThrow('There is no option timeoutMs: did you mean timeout?')
    expect(() => checkOptions(WAIT, { waitMs: 5_000 })).toThrow('There is no option waitMs')
  })
})
