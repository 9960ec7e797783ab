// A signal for a stream. It aborts with the caller's signal, or when no data has arrived for too long.

/** Guards one stream; `stop` it when the stream has ended. */
export interface SilenceGuard {
  readonly signal: AbortSignal
  /** Whether the signal aborted because no data arrived. */
  isSilent(): boolean
  /** Call it when data arrives: the next data must arrive within `ms` milliseconds from now. */
  rearm(ms: number): void
  stop(): void
}

/** Aborts with `outer`, or when `ms` milliseconds pass without a `rearm`. */
export function guardSilence(outer: AbortSignal, ms: number): SilenceGuard {
  const controller = new AbortController()
  const onOuter = () => controller.abort(outer.reason)
  let silent = false
  const onSilence = () => {
    silent = true
    controller.abort()
  }
  let timer = setTimeout(onSilence, ms)
  // This does not use AbortSignal.any, because the outer signal may live long and must not accumulate listeners.
  if (outer.aborted) onOuter()
  else outer.addEventListener('abort', onOuter, { once: true })
  return {
    signal: controller.signal,
    isSilent: () => silent,
    rearm(next) {
      clearTimeout(timer)
      timer = setTimeout(onSilence, next)
    },
    stop() {
      clearTimeout(timer)
      outer.removeEventListener('abort', onOuter)
    },
  }
}
