// Runs a tool's body under its timeout. Code that ignores its signal cannot be stopped from inside a process, only abandoned.

/** How long a body that may be repeated has after its timeout or an interrupt, before it is abandoned. */
export const ABANDON_AFTER_MS = 1_000
/** How long any other body has, where no process can be killed for it. */
export const GIVE_UP_AFTER_MS = 5_000

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

/** The bounds of a body. */
export interface BodyBounds {
  timeoutMs: number
  /** Aborts when the attempt is to stop. */
  stop: AbortSignal
  /** How long after its timeout or a stop the body is waited for; absent: until its process is killed for it. */
  abandonAfterMs?: number
}

/** Runs the body; its signal aborts on the timeout and when `stop` does. Rejects with `TimedOut`, or with what the body throws. */
export async function runBody<T>({ timeoutMs, stop, abandonAfterMs }: BodyBounds, body: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timedOut = new TimedOut(timeoutMs)
  const timeout = new AbortController()
  const stopTimer = afterTurning(timeoutMs, () => timeout.abort(timedOut))
  const signal = AbortSignal.any([timeout.signal, stop])
  const ended = new AbortController()
  const running = entered(body, signal)
  try {
    return await (abandonAfterMs === undefined ? running : Promise.race([running, abandoned(signal, abandonAfterMs, ended.signal)]))
  } catch (error) {
    // What a body throws because it was told to stop says less than why it was told.
    throw timeout.signal.aborted && !stop.aborted ? timedOut : error
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

/** Rejects a while after the signal: the event loop turns, so the body had its chance to heed it. */
function abandoned(signal: AbortSignal, afterMs: number, ended: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const wait = (): void => {
      const stopTimer = afterTurning(afterMs, () => reject(signal.reason))
      ended.addEventListener('abort', stopTimer, { once: true })
    }
    if (signal.aborted) wait()
    else signal.addEventListener('abort', wait, { once: true, signal: ended })
  })
}
