// The process of one executor, from its parent's side: it loads the module, runs jobs, and ends.
import type { ChildProcess } from 'node:child_process'
import { basename } from 'node:path'
import type { SentLine } from '../../log/sending-logger.ts'
import type { PawlError } from '../../session/errors.ts'
import { crossed } from '../crossed.ts'
import { WorkerError } from '../errors.ts'
import type { ExecutorToParent, ParentToExecutor } from '../protocol.ts'
import { type ExecutorScript, forkExecutor, killGroup, tell, vouchTo } from './processes.ts'

export interface ProcessExit {
  code: number | null
  signal: string | null
}

/** Callbacks of the parent, in the order of their calls. */
export interface ExecutorListener {
  /** The executor has loaded this file of the user, or the file is missing; only if `script.reportsFiles`. */
  onFile(path: string): void
  /** The executor has written a log line; only if `script.log.toParent`. */
  onLine(line: SentLine): void
  /** The executor has loaded the module and created the services. */
  onLoaded(): void
  /** The executor cannot load the module. Called once; its exit follows. */
  onFailed(error: PawlError): void
  /** The executor's death is certain. */
  onExit(exit: ProcessExit): void
}

export interface ExecutorProcess {
  /** Absent if the system refused to start it; `onFailed` and `onExit` follow. */
  readonly pid: number | undefined
  isLoaded(): boolean
  tell(message: ParentToExecutor): void
  /** The orchestrator holds the executor's attempts, so overdue bodies need not end the process yet (`BodyWatch`). */
  vouch(): void
  kill(): void
}

/** Starts a process that has `loadTimeoutMs` to load the module. @throws WorkerError `no_typescript_loader`. */
export function startExecutorProcess(script: ExecutorScript, loadTimeoutMs: number, listener: ExecutorListener): ExecutorProcess {
  const { module } = script
  const child = forkExecutor(script)
  let isLoaded = false
  let hasFailed = false
  let isReleased = false

  const fail = (error: PawlError): void => {
    if (hasFailed) return
    hasFailed = true
    listener.onFailed(error)
  }
  const hangs = setTimeout(() => {
    fail(moduleHangs(module, loadTimeoutMs))
    killGroup(child)
  }, loadTimeoutMs)

  child.on('message', (message: ExecutorToParent) => {
    switch (message?.pawl) {
      case 'files':
        for (const path of message.files) listener.onFile(path)
        return
      case 'log':
        return listener.onLine(message)
      case 'loaded':
        isLoaded = true
        clearTimeout(hangs)
        return listener.onLoaded()
      case 'start_failed':
        return fail(crossed(message.error))
    }
  })
  endOf(child, (exit, cause) => {
    clearTimeout(hangs)
    // The child processes of a body that was cut off would continue its effect, even if the executor ended itself.
    if (!isReleased || exit.code !== 0) killGroup(child)
    if (cause)
      fail(new WorkerError('worker_start_failed', `An executor could not be started: ${cause.message}. pawl retries it.`, { cause }))
    // A module may end its process silently. A kill is not the module's fault.
    else if (!isLoaded && exit.signal === null) fail(moduleExited(module, exit.code))
    listener.onExit(exit)
  })
  return {
    pid: child.pid,
    isLoaded: () => isLoaded,
    tell(message) {
      if (message.pawl === 'shutdown') isReleased = true
      tell(child, message)
    },
    vouch: () => vouchTo(child),
    kill: () => killGroup(child),
  }
}

/** Calls back once, when the process has ended or could not be started. */
function endOf(child: ChildProcess, ended: (exit: ProcessExit, cause?: Error) => void): void {
  child.once('exit', (code, signal) => ended({ code, signal }))
  child.on('error', (cause) => {
    // For a running process, the exit event has all the information.
    if (child.pid === undefined) ended({ code: null, signal: null }, cause)
  })
}

/** The module took too long. */
export function moduleHangs(module: string, loadTimeoutMs: number): WorkerError {
  const text = `${basename(module)} did not load and create its services within ${loadTimeoutMs / 1_000} s. Fix what it waits for, or raise loadTimeout.`
  return new WorkerError('module_hangs', text)
}

/** The module ended its process. */
export function moduleExited(module: string, code: number | null, when = 'while it loaded'): WorkerError {
  const text = `${basename(module)} ended its process (exit code ${code}) ${when}. See its error output for the reason; make it throw instead of exiting.`
  return new WorkerError('module_exited', text)
}
