// When a dead process is replaced: a moment later, for a booting one takes the CPU that the replay of what it held needs.

/** The least time to the replacement; doubled for each process in a row that died before it served. */
const AFTER_MS = 300
const AFTER_AT_MOST_MS = 5_000
/** What was held may hold up the new process for so long. */
const HELD_UP_MS = 2_000
const LOOK_EVERY_MS = 50

/** Starts replacements in time. */
export interface Respawning {
  /** A process serves: the next one that dies is replaced without delay. */
  served(): void
  /** A process died; `isHeldUp` tells while what it held is not running again. */
  replace(dead: { ready: boolean; isHeldUp(): boolean }): void
}

/** `hasSpare`: another process serves. */
export function startRespawning(needs: { hasSpare(): boolean; isStopping(): boolean; spawn(): void }): Respawning {
  let after = AFTER_MS

  return {
    served() {
      after = AFTER_MS
    },
    replace({ ready, isHeldUp }) {
      if (!ready) after = Math.min(after * 2, AFTER_AT_MOST_MS)
      const latest = Date.now() + Math.max(after, HELD_UP_MS)
      const attempt = (): void => {
        if (needs.isStopping()) return
        // With a spare at work on what was held, the new process waits for it; with none, everything waits for the new one.
        if (needs.hasSpare() && isHeldUp() && Date.now() < latest) setTimeout(attempt, LOOK_EVERY_MS)
        else needs.spawn()
      }
      setTimeout(attempt, needs.hasSpare() || !ready ? after : 0)
    },
  }
}
