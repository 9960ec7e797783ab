// Omits optional members instead of setting them to `undefined`. JSON and `exactOptionalPropertyTypes` both distinguish the two.

/** The members that have a value, in order: `{ ...defined({ by, reason }) }`. */
export function defined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
