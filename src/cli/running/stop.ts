// Stop requests from a person or a process manager: the first drains, the second stops at once.

export interface StopRequests {
  /** Resolves at the first request. */
  readonly stop: Promise<void>
  /** Resolves at the second request. */
  readonly hurry: Promise<void>
  /** Whether the first request has arrived. */
  stopping(): boolean
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Handles SIGINT, SIGTERM and SIGHUP. A third request exits immediately.
 * A closed standard output counts as a request, too: its reader has exited.
 */
export function listenForStop(): StopRequests {
  let requests = 0
  const stop = deferred()
  const hurry = deferred()
  const onRequest = () => {
    requests += 1
    if (requests === 1) stop.resolve()
    else if (requests === 2) hurry.resolve()
    else process.exit(130)
  }
  const onOutputError = () => {
    if (requests === 0) onRequest()
  }
  for (const signal of SIGNALS) process.on(signal, onRequest)
  process.stdout.on('error', onOutputError)
  return { stop: stop.promise, hurry: hurry.promise, stopping: () => requests > 0 }
}

/** The first request as an AbortSignal, for work that stops between its steps. */
export function stopSignalOf({ stop }: StopRequests): AbortSignal {
  const controller = new AbortController()
  void stop.then(() => controller.abort())
  return controller.signal
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
