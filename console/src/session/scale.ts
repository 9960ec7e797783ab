// The axis of a chart. Pure.

const STEPS = [1, 2, 2.5, 5, 10]
const MARKS = 4

/** An axis from 0 to `top`, with round numbers as marks. */
export function scaleFor(most: number): { top: number; marks: number[] } {
  if (!(most > 0)) return { top: 1, marks: [0] }
  const power = 10 ** Math.floor(Math.log10(most / MARKS))
  const step = (STEPS.find((one) => one * power * MARKS >= most) ?? 10) * power
  const marks = Array.from({ length: Math.ceil(most / step) + 1 }, (_, nth) => nth * step)
  return { top: marks.at(-1) ?? most, marks }
}
