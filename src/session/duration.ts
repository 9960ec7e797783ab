// Durations as users write them: a number of milliseconds, or a number with its unit.

/** Milliseconds, or text like `'250ms'`, `'30s'`, `'5m'`, `'24h'`, `'7d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** Timers use 32 bits; no limit of ours needs more. */
export const LONGEST_MS = 2 ** 31 - 1

/** The milliseconds of a duration; undefined if the value is not a duration, is not positive, or is longer than 24 days. */
export function milliseconds(duration: unknown): number | undefined {
  const text = typeof duration === 'number' ? `${duration}ms` : duration
  const match = typeof text === 'string' ? /^(\d+(?:\.\d+)?(?:e\d+)?)(ms|s|m|h|d)$/.exec(text) : null
  if (!match) return undefined
  const ms = Math.round(Number(match[1]) * (UNIT_MS[match[2] ?? ''] ?? Number.NaN))
  return ms > 0 && ms <= LONGEST_MS ? ms : undefined
}
