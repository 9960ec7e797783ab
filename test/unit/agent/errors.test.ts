// What tools may throw to say more than that they failed.
import { describe, expect, it } from 'vitest'
import { isToolError, ModelError, ToolError } from '../../../src/agent/errors.ts'

describe('a ToolError', () => {
  it.each([
    [1_500, 1_500],
    ['2s', 2_000],
    ['250ms', 250],
  ] as const)('a ToolError says with retryAfter %j when to try again', (retryAfter, ms) => {
    expect(new ToolError('busy', { retryAfter })).toMatchObject({ retryAfterMs: ms, retryable: true, code: 'tool_error' })
  })

  it.each([Number.NaN, 0, -1, Number.POSITIVE_INFINITY, 'soon', '40d', null])(
    'a ToolError ignores %j, which is not a duration',
    (retryAfter) => {
      expect(new ToolError('busy', { retryAfter: retryAfter as number }).retryAfterMs).toBeUndefined()
    },
  )

  it('a ToolError is recognized by its name, even one from another copy of pawl; a property that throws does no harm', () => {
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
  it.each([Number.NaN, -1, Number.POSITIVE_INFINITY, 'soon', null, {}, 1e15, '2d'])(
    'a ModelError ignores the wait %j, which is not valid or is longer than a day',
    (retryAfter) => {
      const error = new ModelError('rate_limit_error', 'slow', { retryable: true, retryAfter: retryAfter as number })
      expect(error.retryAfterMs).toBeUndefined()
    },
  )

  it.each([0, 250, 86_400_000])('a ModelError keeps the valid wait %j', (retryAfter) => {
    expect(new ModelError('rate_limit_error', 'slow', { retryable: true, retryAfter }).retryAfterMs).toBe(retryAfter)
  })
})
