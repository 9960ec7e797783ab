// A limited number of places, which are taken in order.

/** Takes a place, as soon as one is free. The result gives it back, once. */
export type TakePlace = () => Promise<() => void>

/** So many places, all of them free. */
export function limitedPlaces(count: number): TakePlace {
  const waiting: (() => void)[] = []
  let free = count
  return async () => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      const next = waiting.shift()
      if (next) next()
      else free += 1
    }
  }
}
