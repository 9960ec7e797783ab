// What can be said about a handful of noisy measurements.

/** A measurement made several times. */
export interface Sample {
  median: number
  /** Half the distance between the quartiles, as a fraction of the median: the noise. */
  noise: number
}

/** Summarises measurements, of which there is at least one. */
export function sampleOf(values: readonly number[]): Sample {
  const median = quantile(values, 0.5)
  return { median, noise: (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / median }
}

/** The value below which the fraction `q` of the values lies, interpolated. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const position = (sorted.length - 1) * q
  const [below, above] = [sorted[Math.floor(position)], sorted[Math.ceil(position)]]
  if (below === undefined || above === undefined) throw new RangeError('Nothing was measured.')
  return below + (above - below) * (position - Math.floor(position))
}

/** The interval that contains the median of the population with a probability of 95 %, whatever the distribution is. */
export function intervalOfMedian(values: readonly number[]): [low: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b)
  const spread = 0.98 * Math.sqrt(sorted.length)
  const at = (rank: number): number => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(rank)))] ?? Number.NaN
  return [at(sorted.length / 2 - spread - 0.5), at(sorted.length / 2 + spread - 0.5)]
}
