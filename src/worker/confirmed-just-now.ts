// Ensures that a confirmation is fresh. A process that was frozen, or whose event loop was blocked, may read an outdated one.
import { steadyNow } from './steady-clock.ts'

/** Less than the heartbeat timeout: within this time, the server cannot have given up on the attempt. */
const JUST_NOW_MS = 3_000
const MAX_ASKS = 5

/** The steady clock stands still while the machine sleeps. The time of day may be changed, which costs one more request. */
const CLOCKS: readonly (() => number)[] = [steadyNow, Date.now]

/**
 * Asks until the answer is fresh. A stale answer may predate the loss of the attempt and the verification of its effect. Returns false if
 * no answer is fresh enough.
 */
export async function confirmedJustNow(ask: () => Promise<unknown>, clocks = CLOCKS): Promise<boolean> {
  for (let asks = 0; asks < MAX_ASKS; asks++) {
    const asked = clocks.map((now) => now())
    await ask()
    if (clocks.every((now, index) => now() - (asked[index] ?? 0) < JUST_NOW_MS)) return true
  }
  return false
}
