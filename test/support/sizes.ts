// How large those tests are that could go on for ever: small by default, whole in the soak (`npm run test:soak`).
const isSoak = process.env.PAWL_SOAK === '1'

/** A size: the usual one, or that of the soak. */
export function size<T>(usual: T, soak: T): T {
  return isSoak ? soak : usual
}

/** The date in UTC as a number: 20261123. */
const today = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''))

/**
 * The seed of whatever is left to chance. The usual sizes draw the same all day, so that a commit that has passed passes again, and
 * others the day after; the soak draws others each time. `PAWL_SEED` gives that of a run that failed.
 */
export const seed = Number(process.env.PAWL_SEED ?? size(today, Math.floor(Math.random() * 1_000_000)))
