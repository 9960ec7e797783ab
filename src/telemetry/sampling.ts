// Decides which traces are exported, by their ids alone, as the SDK's ratio-based sampler does.
const PART_DIGITS = 8
const PART_LIMIT = 0xff_ff_ff_ff

/** Whether a trace is part of the exported share. `share`: from 0 to 1. */
export function isSampled(traceId: string, share: number): boolean {
  if (share >= 1) return true
  let sum = 0
  for (let from = 0; from < traceId.length; from += PART_DIGITS)
    sum = (sum ^ Number.parseInt(traceId.slice(from, from + PART_DIGITS), 16)) >>> 0
  return sum < Math.floor(share * PART_LIMIT)
}
