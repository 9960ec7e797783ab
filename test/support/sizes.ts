// The size of tests that could run forever: small by default, full in the soak (`npm run test:soak`).
import { draw } from './draw.ts'

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

/** All variants of a test in the soak; usually `count` of them, drawn by the seed: different ones each day. */
export function variants<T>(all: readonly T[], count: number): readonly T[] {
  return size(draw(seed, all, count), all)
}
