// The size of tests that could run forever: small by default, full in the soak (`npm run test:soak`).
import { commitSeed } from '../../scripts/commit-seed.js'

const isSoak = process.env.PAWL_SOAK === '1'

/** A size: the usual one, or that of the soak. */
export function size<T>(usual: T, soak: T): T {
  return isSoak ? soak : usual
}

/**
 * The seed of everything random. It follows from the commit: the same one always runs the same cases, and another one runs others. In the
 * soak it changes each time, except in CI. `PAWL_SEED` sets it to that of a failed run.
 */
export const seed = Number(
  (process.env.PAWL_SEED ??= String(isSoak && !process.env.CI ? Math.floor(Math.random() * 1_000_000) : (commitSeed() ?? 1))),
)

/** All variants of a test in the soak; usually `count` of them, which follow from the seed. */
export function variants<T>(all: readonly T[], count: number): readonly T[] {
  const first = seed * count
  const chosen = new Set(Array.from({ length: count }, (_, index) => (first + index) % all.length))
  return size(
    all.filter((_, index) => chosen.has(index)),
    all,
  )
}
