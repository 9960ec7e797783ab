// Signals that a terminal or a service manager sends to all processes of a worker. The parent decides when the others end.

const OF_THE_GROUP = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** How long the user's listeners may take at the end if they do not exit themselves. */
const LISTENERS_MS = 2_000

const isOfTheGroup = (event: unknown): boolean => (OF_THE_GROUP as readonly unknown[]).includes(event)
const nothing = (): void => undefined

/**
 * Ignores these signals, and delays the listeners of user code. A listener that exits the process, as loggers and tracers register, would
 * cut off calls that the parent lets finish. Call this before user code is loaded. Returns the function that lets those listeners handle a
 * SIGTERM when this process ends.
 */
export function ignoreGroupSignals(): () => Promise<void> {
  const emit = process.emit.bind(process) as (event: string, ...args: unknown[]) => boolean
  process.emit = ((event: string, ...args: unknown[]) => isOfTheGroup(event) || emit(event, ...args)) as typeof process.emit
  for (const signal of OF_THE_GROUP) process.on(signal, nothing)
  // Without a listener, the signal would end the process.
  process.on('removeListener', (event) => {
    if (isOfTheGroup(event) && !process.listeners(event as NodeJS.Signals).includes(nothing)) process.on(event as NodeJS.Signals, nothing)
  })
  return async () => {
    if (process.listenerCount('SIGTERM') === 1) return
    emit('SIGTERM', 'SIGTERM', 15)
    // Synchronous listeners are done. An asynchronous one usually exits the process when it is done.
    await new Promise((resolve) => setTimeout(resolve, LISTENERS_MS))
  }
}
