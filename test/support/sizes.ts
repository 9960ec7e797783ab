// How large those tests are that could go on for ever: small by default, whole in the soak (`npm run test:soak`).
const isSoak = process.env.PAWL_SOAK === '1'

/** A size: the usual one, or that of the soak. */
export function size<T>(usual: T, soak: T): T {
  return isSoak ? soak : usual
}

/** The seed of whatever is left to chance: another one each time, unless `PAWL_SEED` gives that of a run that failed. */
export const seed = Number(process.env.PAWL_SEED ?? Math.floor(Math.random() * 1_000_000))
