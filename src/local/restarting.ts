// Restarts servers that die, on the same port and with their data: at once, then with growing pauses.
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from './errors.ts'
import type { ServerExit } from './keeper/keeper.ts'
import type { Say } from './progress.ts'
import type { WatchedServer } from './server.ts'
import { beginningOf } from '../session/beginning.ts'

const FIRST_DELAY_MS = 500
const LAST_DELAY_MS = 15_000
/** After a server has run for this long, its next restart is immediate again. */
const STABLE_MS = 60_000
const REASON_CHARACTERS = 300

/** Omits the end of the server's log, which is in its file. */
function shortReason(error: unknown): string {
  const [reason = ''] = reasonOf(error).split(' Its log: ', 1)
  return beginningOf(reason, REASON_CHARACTERS)
}

/** Restarts the server whenever it dies, until the returned function is called. */
export function restartOnDeath(name: string, server: WatchedServer, say: Say): () => void {
  const over = new AbortController()
  let startedAt = Date.now()
  let delayMs = 0

  async function restart(): Promise<void> {
    for (;;) {
      await sleep(delayMs, undefined, { ref: false, signal: over.signal })
      delayMs = Math.min(Math.max(FIRST_DELAY_MS, delayMs * 2), LAST_DELAY_MS)
      try {
        await server.start()
        startedAt = Date.now()
        return
      } catch (error) {
        if (over.signal.aborted) return
        say(`${name} could not be restarted: ${shortReason(error)}; next attempt in ${delayMs / 1_000} s`)
      }
    }
  }

  server.onDeath(({ code, signal }: ServerExit) => {
    if (over.signal.aborted) return
    const diedAt = Date.now()
    if (diedAt - startedAt > STABLE_MS) delayMs = 0
    say(`${name} exited (${signal ?? `exit code ${code}`}); restarting it with its data`)
    restart().then(
      () => over.signal.aborted || say(`${name} is running again after ${((Date.now() - diedAt) / 1_000).toFixed(1)} s`),
      // The stack was stopped.
      () => {},
    )
  })
  return () => over.abort()
}
