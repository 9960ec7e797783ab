// One server of the stack: its origin, its pid, and stopping and starting it.
import { StackError } from './errors.ts'
import type { ServerExit, KeptProcess } from './keeper/keeper.ts'

export interface StackServer {
  /** `embedded`: the stack starts and stops it. `yours`: the stack found it by its address and does not touch it. */
  readonly origin: 'embedded' | 'yours'
  /** The pid of a running embedded server. */
  readonly pid: number | undefined
  /**
   * Stops an embedded server and resolves when it has exited: `orderly` (default) shuts it down, `crash` kills it.
   * @throws StackError `not_embedded`.
   */
  stop(how?: 'orderly' | 'crash'): Promise<void>
  /**
   * Restarts an embedded server on the same port with the same data; resolves when it answers. Does nothing while it is running.
   * @throws StackError `not_embedded`, `temporal_start_failed`, `postgres_start_failed`.
   */
  start(): Promise<void>
}

/** A server with the stack's own callbacks. */
export interface WatchedServer extends StackServer {
  /** Calls `listener` each time an embedded server exits without having been stopped. */
  onDeath(listener: (exit: ServerExit) => void): void
}

/** A server that the stack found by its address. */
export function foundServer(what: string): WatchedServer {
  const refuse = async () => {
    throw new StackError(
      'not_embedded',
      `${what} was not started by this stack, so the stack cannot stop or start it. Stop or start it yourself.`,
    )
  }
  return { origin: 'yours', pid: undefined, stop: refuse, start: refuse, onDeath() {} }
}

/** A server that the stack runs: `running`, and later the processes that `launch` starts in its place. */
export function embeddedServer(
  running: KeptProcess,
  { launch, end }: { launch(): Promise<KeptProcess>; end(how: 'orderly' | 'crash'): Promise<void> },
): WatchedServer {
  const listeners: ((exit: ServerExit) => void)[] = []
  let current = running
  let wanted = true

  function watch(process: KeptProcess): void {
    void process.exited.then((exit) => {
      if (wanted) for (const listener of listeners) listener(exit)
    })
  }

  watch(current)
  return {
    origin: 'embedded',
    get pid() {
      return current.exit() ? undefined : current.pid
    },
    async stop(how = 'orderly') {
      wanted = false
      await end(how)
    },
    async start() {
      wanted = true
      if (!current.exit()) return
      current = await launch()
      watch(current)
    },
    onDeath: (listener) => void listeners.push(listener),
  }
}
