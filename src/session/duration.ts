// Durations as users write them: a number of milliseconds, or a number with its unit.

/** Milliseconds, or a number with its unit: `'250ms'`, `'30s'`, `'5m'`, `'24h'`, `'7d'`, `'2w'`, `'1y'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd' | 'w' | 'y'}`

const DAY_MS = 86_400_000
const UNIT_MS: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: DAY_MS,
  w: 7 * DAY_MS,
  y: 365 * DAY_MS,
}
/** Timers use 32 bits: 24.8 days. */
export const LONGEST_MS = 2 ** 31 - 1

/** The milliseconds of a duration; undefined if the value is not a duration, or is out of bounds. Zero is valid only if `min` is 0. */
export function milliseconds(duration: unknown, { min = 1, max = LONGEST_MS }: { min?: number; max?: number } = {}): number | undefined {
  const text = typeof duration === 'number' ? `${duration}ms` : duration
  const match = typeof text === 'string' ? /^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(ms|s|m|h|d|w|y)$/.exec(text) : null
  if (!match) return undefined
  const ms = Math.round(Number(match[1]) * (UNIT_MS[match[2] ?? ''] ?? Number.NaN))
  return ms >= min && ms <= max ? ms : undefined
}

const SHOWN: readonly [ms: number, name: string][] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
]

/** A duration for people in its two largest units, such as `2 h 5 min`; in milliseconds below one second. */
export function durationText(ms: number): string {
  const first = SHOWN.findIndex(([unit]) => ms >= unit)
  if (first === -1) return `${Math.round(ms)} ms`
  let rest = ms
  const parts = SHOWN.slice(first, first + 2).map(([unit, name]) => {
    const count = Math.floor(rest / unit)
    rest -= count * unit
    return count === 0 ? '' : `${count} ${name}`
  })
  return parts.filter(Boolean).join(' ')
}
