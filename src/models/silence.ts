// A signal for a stream: aborts with the caller's, and when nothing has come for too long.

/** Guards one stream; `stop` it when the stream has ended. */
export interface SilenceGuard {
  readonly signal: AbortSignal
  /** Whether it was silence that aborted the signal. */
  isSilent(): boolean
  /** Something came: the next thing has `ms` milliseconds from now. */
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
  // Not AbortSignal.any: the outer signal may live long, and must not collect what waits for it.
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
