// Optional members: there, or not there at all. JSON and `exactOptionalPropertyTypes` both tell that from `undefined`.

/** Those of the members that have a value, in their order: `{ ...defined({ by, reason }) }`. */
export function defined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
