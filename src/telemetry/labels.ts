// Keeps the number of time series bounded, whatever the names of models, tools and errors.
import type { Labels } from './instruments.ts'

/** How many values one label may have; further ones become `_OTHER`, the convention's value for errors. */
const VALUES_KEPT = 100
const MAX_CHARS = 100
const OTHER = '_OTHER'

/** Returns a function that replaces label values beyond the limits. It remembers the values that it has seen. */
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
