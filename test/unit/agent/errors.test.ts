// What tools may throw to say more than that they failed.
import { describe, expect, it } from 'vitest'
import { isToolError, ModelError, ToolError } from '../../../src/agent/errors.ts'

describe('a ToolError', () => {
  it.each([
    [1_500, 1_500],
    ['2s', 2_000],
    ['250ms', 250],
  ] as const)('says by retryAfter %j when to try again', (retryAfter, ms) => {
    expect(new ToolError('busy', { retryAfter })).toMatchObject({ retryAfterMs: ms, retryable: true, code: 'tool_error' })
  })

  it.each([Number.NaN, 0, -1, Number.POSITIVE_INFINITY, 'soon', '40d', null])('passes over %j, which is no duration', (retryAfter) => {
    expect(new ToolError('busy', { retryAfter: retryAfter as number }).retryAfterMs).toBeUndefined()
  })

  it('is known by its name, also one of another copy of pawl; nothing that is looked at throws', () => {
    expect(isToolError(Object.assign(new Error('x'), { name: 'ToolError', retryable: false }))).toBe(true)
    expect(isToolError(new Error('x'))).toBe(false)
    const sealed = new Error('x')
    Object.defineProperty(sealed, 'name', {
      get() {
        throw new Error('do not look')
      },
    })
    expect(isToolError(sealed)).toBe(false)
  })
})

describe('a ModelError', () => {
  it.each([Number.NaN, -1, Number.POSITIVE_INFINITY, 'soon', null, {}])('passes over the wait %j, which is not one', (retryAfter) => {
    const error = new ModelError('rate_limit_error', 'slow', { retryable: true, retryAfter: retryAfter as number })
    expect(error.retryAfterMs).toBeUndefined()
  })

  it.each([0, 250, 1e18])('keeps the wait %j', (retryAfter) => {
    expect(new ModelError('rate_limit_error', 'slow', { retryable: true, retryAfter }).retryAfterMs).toBe(retryAfter)
  })
})
