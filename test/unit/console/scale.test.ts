// The axis of the console's charts.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { scaleFor } from '../../../console/src/session/scale.ts'

it('the axis of a chart reaches the largest value with a few marks, and without much space above', () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-9, max: 1e12, noNaN: true }), (most) => {
      const { top, marks } = scaleFor(most)
      expect(top).toBeGreaterThanOrEqual(most * (1 - 1e-9))
      expect(top).toBeLessThan(most * 2.6)
      expect(marks[0]).toBe(0)
      expect(marks.at(-1)).toBe(top)
      expect(marks.length).toBeGreaterThanOrEqual(2)
      expect(marks.length).toBeLessThanOrEqual(6)
    }),
  )
  expect(scaleFor(0)).toEqual({ top: 1, marks: [0] })
  expect(scaleFor(7.3).marks).toEqual([0, 2, 4, 6, 8])
})
