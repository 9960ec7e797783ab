// What the processes of `stream.ts` have in common.

/** How a model speaks, as the first message of its session. */
export interface StreamOrder {
  words: number
  perSecond: number
  /** How long it thinks. */
  firstAfterMs: number
}

/** Milliseconds since 1970, with fractions: the processes of one machine agree on it. */
export function now(): number {
  return performance.timeOrigin + performance.now()
}
