// What a supervisor refuses to be told: a patience that would outlast the session's own.
import { expect, it } from 'vitest'
import { checkStuckLoopMs } from '../../../src/worker/stuck-loop.ts'

it('a process may stand still for a minute where nobody says otherwise, and as long as is said within two', () => {
  expect(checkStuckLoopMs(undefined)).toBe(60_000)
  expect(checkStuckLoopMs(4_000)).toBe(4_000)
  expect(checkStuckLoopMs(110_000)).toBe(110_000)
})

it.each([110_001, 120_000, 600_000, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, '60000' as unknown as number])(
  'stuckLoopMs %s is refused, with what to give instead',
  (given) => {
    expect(() => checkStuckLoopMs(given)).toThrow(
      expect.objectContaining({ name: 'WorkerError', code: 'invalid_options', message: expect.stringContaining('110000') }),
    )
  },
)
