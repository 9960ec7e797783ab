// Keeps the number of time series bounded, whatever models, tools and errors are called.
import type { Labels } from './instruments.ts'

/** Values of one label; further ones become `_OTHER`, as the convention has it for errors. */
const VALUES_KEPT = 100
const MAX_CHARS = 100
const OTHER = '_OTHER'

/** Returns labels of which each has a bounded number of values. */
export function boundedLabels(): (labels: Labels) => Labels {
  const known = new Map<string, Set<string>>()

  function bounded(key: string, value: string): string {
    let values = known.get(key)
    if (!values) known.set(key, (values = new Set()))
    if (values.has(value)) return value
    if (values.size >= VALUES_KEPT || value.length > MAX_CHARS) return OTHER
    values.add(value)
    return value
  }

  return (labels) =>
    Object.fromEntries(Object.entries(labels).map(([key, value]) => [key, typeof value === 'string' ? bounded(key, value) : value]))
}
