// Runs a tool's body under its timeout. Code that ignores its signal cannot be stopped from inside a process, only abandoned.
import { numberText } from '../../session/number-text.ts'
import { afterUnblocked } from '../unblocked.ts'

/** Grace period after a timeout or an interrupt before a repeatable body is abandoned. */
export const ABANDON_AFTER_MS = 1_000

/** The body took longer than the tool's `timeoutMs`. */
export class TimedOut extends Error {
  override readonly name = 'Timeout'
  readonly code = 'timeout'

  constructor(timeoutMs: number) {
    super(`The tool took longer than its timeout of ${numberText(timeoutMs)} ms.`)
  }
}

export interface BodyBounds {
  timeoutMs: number
  /** Aborts when the attempt is to stop. */
  stop: AbortSignal
  /** How long to wait for the body after its timeout or a stop; absent: until its process is killed. */
  abandonAfterMs?: number
}

/** Runs the body; its signal aborts on the timeout and when `stop` does. Rejects with `TimedOut`, or with the body's error. */
export async function runBody<T>({ timeoutMs, stop, abandonAfterMs }: BodyBounds, body: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timedOut = new TimedOut(timeoutMs)
  const timeout = new AbortController()
  const stopTimer = afterUnblocked(timeoutMs, () => timeout.abort(timedOut))
  const signal = AbortSignal.any([timeout.signal, stop])
  const ended = new AbortController()
  const running = entered(body, signal)
  try {
    return await (abandonAfterMs === undefined ? running : Promise.race([running, abandoned(signal, abandonAfterMs, ended.signal)]))
  } catch (error) {
    // The reason for the stop is more informative than an error that the stop caused.
    throw timeout.signal.aborted && !stop.aborted ? timedOut : error
  } finally {
    stopTimer()
    ended.abort()
  }
}

async function entered<T>(body: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  return body(signal)
}

/** Rejects `afterMs` after the signal. The event loop was free, so the body could have reacted. */
function abandoned(signal: AbortSignal, afterMs: number, ended: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const wait = (): void => {
      const stopTimer = afterUnblocked(afterMs, () => reject(signal.reason))
      ended.addEventListener('abort', stopTimer, { once: true })
    }
    if (signal.aborted) wait()
    else signal.addEventListener('abort', wait, { once: true, signal: ended })
  })
}
