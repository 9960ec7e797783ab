// Runs a tool's body under its timeout. Code that does not heed its signal cannot be stopped from inside a process.
import type { Hold } from './needs.ts'

/** How long a body may go on after its timeout or an interrupt, where nobody kills its process. */
const GRACE_MS = 5_000

/** A timer that is later than this says that the event loop stood still. */
const STANDS_STILL_MS = 500

/** The body took longer than the tool's `timeoutMs`. */
export class TimedOut extends Error {
  override readonly name = 'Timeout'
  readonly code = 'timeout'

  constructor(timeoutMs: number) {
    super(`The tool took longer than ${timeoutMs} ms, its timeout.`)
  }
}

/** Runs the body; its signal aborts on the timeout and when the hold's does. Rejects with `TimedOut`, or with what the body throws. */
export async function runBody<T>(timeoutMs: number, hold: Hold, body: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timedOut = new TimedOut(timeoutMs)
  const timeout = new AbortController()
  const stopTimer = afterTurning(timeoutMs, () => timeout.abort(timedOut))
  const signal = AbortSignal.any([timeout.signal, hold.signal])
  const ended = new AbortController()
  try {
    return await Promise.race([entered(body, signal), abandoned(signal, hold, ended.signal)])
  } catch (error) {
    // What a body throws because it was told to stop says less than why it was told.
    throw timeout.signal.aborted && !hold.signal.aborted ? timedOut : error
  } finally {
    stopTimer()
    ended.abort()
  }
}

/**
 * Calls back after `ms` in which the event loop turned. A timer that comes late tells that it stood still: that was another call's
 * doing, and what this one waited for may be there already, so it gets the time back. Gives what stops it.
 */
function afterTurning(ms: number, act: () => void): () => void {
  let timer: NodeJS.Timeout
  const arm = (waitMs: number): void => {
    const due = Date.now() + waitMs
    timer = setTimeout(() => {
      const lateMs = Date.now() - due
      if (lateMs > STANDS_STILL_MS) arm(Math.min(lateMs, ms))
      else act()
    }, waitMs)
  }
  arm(ms)
  return () => clearTimeout(timer)
}

async function entered<T>(body: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  return body(signal)
}

/** Rejects a grace after the signal, unless somebody kills this process for it; who would have may be gone by then. */
function abandoned(signal: AbortSignal, hold: Hold, ended: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const wait = (): void => {
      const timer = setInterval(() => {
        if (!hold.killsOverdue) reject(signal.reason)
      }, GRACE_MS).unref()
      ended.addEventListener('abort', () => clearInterval(timer), { once: true })
    }
    signal.addEventListener('abort', wait, { once: true, signal: ended })
  })
}
