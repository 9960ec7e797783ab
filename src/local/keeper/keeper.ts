// A keeper as the stack uses it: starts and stops named processes, and cleans up in this process if the keeper process is killed.
import { rm } from 'node:fs/promises'
import { reasonOf, StackError } from '../errors.ts'
import { openChannel } from './channel.ts'
import { endProcess } from './processes.ts'
import type { KeeperArguments, ProcessSpec } from './protocol.ts'

/** How a process ended. */
export interface ServerExit {
  code: number | null
  signal: string | null
}

/** A process that the keeper runs. */
export interface KeptProcess {
  pid: number
  exited: Promise<ServerExit>
  /** How it ended; undefined while it runs. */
  exit(): ServerExit | undefined
}

/** Owns processes and stops them all at `close`, even if this process is killed. Does not keep this process alive. */
export interface Keeper {
  /** Starts a process. Rejects if the program cannot be started at all. */
  start(name: string, spec: ProcessSpec): Promise<KeptProcess>
  /** Stops a process, and kills it after 10 s; resolves when it has exited. */
  stop(name: string, signal: NodeJS.Signals): Promise<void>
  /** Removes a folder at the end, if it still exists. */
  discard(path: string): Promise<void>
  /** Stops all processes; resolves when everything has exited and is cleaned up. */
  close(): Promise<void>
  /** Resolves when the keeper process has ended for any reason; its processes are about to be stopped. */
  gone: Promise<void>
}

/** Starts a keeper. @throws StackError `data_dir_in_use`, `keeper_failed`. */
export async function startKeeper(args: KeeperArguments): Promise<Keeper> {
  const running = new Map<number, { spec: ProcessSpec; ended(exit: ServerExit): void }>()
  // An exit may be reported before the reply to `start` has been handled.
  const early = new Map<number, ServerExit>()
  let closing: Promise<void> | undefined

  const channel = openChannel(args, ({ pid, code, signal }) => {
    const process = running.get(pid)
    running.delete(pid)
    if (process) process.ended({ code, signal })
    else early.set(pid, { code, signal })
  })
  const { heldBy } = await channel.ready.catch((error: unknown) => {
    throw new StackError('keeper_failed', `The process that runs the servers did not start: ${reasonOf(error)}. Please report this.`, {
      cause: error,
    })
  })
  if (heldBy !== undefined) {
    const folder = args.lock.slice(0, args.lock.lastIndexOf('/'))
    throw new StackError(
      'data_dir_in_use',
      `${folder} is in use by another local stack (process ${heldBy}). Stop that stack, or choose another data directory.`,
    )
  }
  const cleanedUp = channel.closed.then(async () => {
    // Empty unless the keeper was killed.
    await Promise.all([...running].map(([pid, { spec }]) => endProcess(pid, spec.marker, spec.stopSignal, 10_000)))
    for (const { ended } of running.values()) ended({ code: null, signal: null })
    await rm(args.lock, { force: true })
    if (args.remove !== undefined) await rm(args.remove, { recursive: true, force: true })
  })

  return {
    gone: channel.closed.then(() => {}),
    async start(name, spec) {
      const pid = await channel.ask({ op: 'start', name, spec })
      return watch(pid, (ended) => {
        const exit = early.get(pid)
        early.delete(pid)
        if (exit) ended(exit)
        else running.set(pid, { spec, ended })
      })
    },
    async stop(name, signal) {
      await channel.ask({ op: 'stop', name, signal })
    },
    async discard(path) {
      await channel.ask({ op: 'discard', path })
    },
    close() {
      closing ??= channel.close().then(() => cleanedUp)
      return closing
    },
  }
}

function watch(pid: number, register: (ended: (exit: ServerExit) => void) => void): KeptProcess {
  let exit: ServerExit | undefined
  const exited = new Promise<ServerExit>((resolve) => {
    register((how) => {
      exit = how
      resolve(how)
    })
  })
  return { pid, exited, exit: () => exit }
}
