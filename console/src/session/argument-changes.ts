// What differs between two JSON values, by JSON pointer. Pure.

export interface ArgumentChange {
  /** JSON pointer; empty: the whole value. */
  path: string
  /** Absent: it is new. */
  before?: unknown
  /** Absent: it is removed. */
  after?: unknown
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The smallest parts that differ, in the order of the first value. */
export function changesOf(before: unknown, after: unknown, path = ''): ArgumentChange[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) => {
      const at = `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      if (!Object.hasOwn(after, name)) return [{ path: at, before: before[name] }]
      if (!Object.hasOwn(before, name)) return [{ path: at, after: after[name] }]
      return changesOf(before[name], after[name], at)
    })
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length)
    return Array.from({ length }, (_, index) => index).flatMap((index): ArgumentChange[] => {
      const at = `${path}/${index}`
      if (index >= after.length) return [{ path: at, before: before[index] as unknown }]
      if (index >= before.length) return [{ path: at, after: after[index] as unknown }]
      return changesOf(before[index], after[index], at)
    })
  }
  return before === after ? [] : [{ path, before, after }]
}
