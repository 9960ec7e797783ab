// One server of the stack, as its users see it: where it comes from, its pid, and stopping and starting it in place.
import { StackError } from './errors.ts'

/** A server of the stack. */
export interface StackServer {
  /** `embedded`: started by the stack and stopped with it. `yours`: found by its address, and left alone. */
  readonly origin: 'embedded' | 'yours'
  /** Of an embedded server that runs. */
  readonly pid: number | undefined
  /**
   * Stops an embedded server and resolves when it has ended: `orderly` (default) lets it finish, `crash` gives it no time.
   * @throws StackError `not_embedded`.
   */
  stop(how?: 'orderly' | 'crash'): Promise<void>
  /**
   * Starts it again on the same port with the same data; resolves when it answers. Nothing to do while it runs.
   * @throws StackError `not_embedded`, `temporal_start_failed`, `postgres_start_failed`.
   */
  start(): Promise<void>
}

/** A server that the stack found by its address. */
export function foundServer(what: string): StackServer {
  const refuse = async () => {
    throw new StackError('not_embedded', `${what} was not started by this stack, so it does not stop or start it: do that where it runs.`)
  }
  return { origin: 'yours', pid: undefined, stop: refuse, start: refuse }
}
