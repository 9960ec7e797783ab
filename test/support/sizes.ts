// The size of tests that could run forever: small by default, full in the soak (`npm run test:soak`).
const isSoak = process.env.PAWL_SOAK === '1'

/** A size: the usual one, or that of the soak. */
export function size<T>(usual: T, soak: T): T {
  return isSoak ? soak : usual
}

/** The date in UTC as a number: 20261123. */
const today = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''))

/**
 * The seed of everything random. With the usual sizes it stays the same all day, so that a commit that has passed passes again, and
 * changes the next day; in the soak it changes each time. `PAWL_SEED` sets it to that of a failed run.
 */
export const seed = Number(process.env.PAWL_SEED ?? size(today, Math.floor(Math.random() * 1_000_000)))

/** All variants of a test in the soak; usually the next `count` of them each day, so that each has its turn after a few days. */
export function variants<T>(all: readonly T[], count: number): readonly T[] {
  const first = seed * count
  const ofToday = new Set(Array.from({ length: count }, (_, index) => (first + index) % all.length))
  return size(
    all.filter((_, index) => ofToday.has(index)),
    all,
  )
}
