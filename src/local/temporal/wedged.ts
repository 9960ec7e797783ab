// Restarts an embedded Temporal server whose database refuses every statement. The dev server has one connection to SQLite. If the deadline
// of a client's call passes during a statement, the driver (modernc.org/sqlite) interrupts that connection, and in rare cases for good. A
// server that pawl has built has a newer driver, which replaces such a connection.
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from '../errors.ts'
import type { Say } from '../progress.ts'
import type { StackServer } from '../server.ts'

/** SQLite's error for an interrupted statement. A passing interrupt affects only one call. */
const INTERRUPTED = 'interrupted (9)'
/** Attempts are lost when heartbeats are missing for ten seconds. */
const LOOK_EVERY_MS = 2_000
/** How many probes in a row must fail this way. */
const PROBES = 3

/** Probes the server until the returned function is called. `probe`: rejects with the server's error. */
export function restartIfWedged(server: StackServer, probe: () => Promise<unknown>, say: Say, lookEveryMs = LOOK_EVERY_MS): () => void {
  const over = new AbortController()
  /** Whether it was stopped here and does not run again yet: nothing else would start it. */
  let isDown = false

  async function isWedged(): Promise<boolean> {
    for (let probes = 0; probes < PROBES; probes++) {
      const error = await probe().then(
        () => undefined,
        (reason: unknown) => reason,
      )
      if (!reasonOf(error).includes(INTERRUPTED)) return false
      await sleep(lookEveryMs / PROBES, undefined, { ref: false, signal: over.signal })
    }
    return true
  }

  async function watch(): Promise<void> {
    for (;;) {
      await sleep(lookEveryMs, undefined, { ref: false, signal: over.signal })
      if (!isDown) {
        if (server.pid === undefined || !(await isWedged())) continue
        say('Temporal’s database refuses every statement, a known fault of its dev server; restarting it with its data')
        isDown = true
        await server.stop('crash')
      }
      await server.start()
      isDown = false
    }
  }

  async function watchForEver(): Promise<void> {
    while (!over.signal.aborted) {
      await watch().catch((error: unknown) => {
        if (!over.signal.aborted) say(`Temporal could not be restarted: ${reasonOf(error)}`)
      })
    }
  }

  void watchForEver()
  return () => over.abort()
}
