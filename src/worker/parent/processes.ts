// Starts the processes of a worker.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { EXTENSION } from '../extension.ts'
import { PARENT_PIPE } from '../parent-watch.ts'
import type { ExecutorProcessOptions, ParentToExecutor, ToChecker, ToOrchestrator } from '../protocol.ts'
import { noTypescriptLoader } from '../typescript-loader.ts'

export interface ExecutorScript extends ExecutorProcessOptions {
  id: number
  module: string
  memoryMb: number | undefined
}

/** Starts an orchestrator, which may load these modules; `start` must be its first message. @throws WorkerError `no_typescript_loader`. */
export function forkOrchestrator(modules: readonly string[]): ChildProcess {
  return forkScript('../orchestrator/main', [], typescriptLoader(...modules))
}

/** Starts an executor of a module. @throws WorkerError `no_typescript_loader`. */
export function forkExecutor({ id, module, memoryMb, ...more }: ExecutorScript): ChildProcess {
  const memory = memoryMb === undefined ? [] : [`--max-old-space-size=${memoryMb}`]
  const options: ExecutorProcessOptions = more
  return forkScript('../executor/main', [String(id), module, JSON.stringify(options)], [...memory, ...typescriptLoader(module)])
}

/** Starts the process that compares open sessions with a module. @throws WorkerError `no_typescript_loader`. */
export function forkChecker(module: string): ChildProcess {
  return forkScript('../executor/check-sessions', [module], typescriptLoader(module))
}

/** Starts the process that lists the MCP servers of a module's agents. @throws WorkerError `no_typescript_loader`. */
export function forkLister(module: string): ChildProcess {
  return forkScript('../executor/list-sources', [module], typescriptLoader(module))
}

/**
 * Standard output and error both go to the parent's standard error, because the parent's standard output may be data. The last pipe is for
 * `endWithParent`. Each process leads its own process group, so that Ctrl-C in a terminal reaches only the parent, and neither bodies nor
 * their child processes.
 */
function forkScript(script: string, args: string[], execArgv: string[]): ChildProcess {
  const child = fork(fileURLToPath(new URL(`${script}.${EXTENSION}`, import.meta.url)), args, {
    execArgv: [...process.execArgv.filter((arg) => !arg.startsWith('--inspect')), ...execArgv],
    serialization: 'advanced',
    stdio: ['ignore', 2, 2, 'ipc', 'pipe'],
    detached: process.platform !== 'win32',
  })
  // Without a file descriptor for its pipes, Node reports the failure later, as it does for other ones, and the child has none.
  const pipes: (typeof child)['stdio'] | undefined = child.stdio
  // An exiting process no longer reads the pipe.
  pipes?.[PARENT_PIPE]?.on('error', () => undefined)
  return child
}

/** Kills a process and its child processes, including orphaned ones. */
export function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  for (const target of process.platform === 'win32' ? [pid] : [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL')
    } catch {
      // The process has ended.
    }
  }
}

/** Sends a message to a process; errors are ignored, because an exiting process does not need it. */
export function tell(child: ChildProcess | undefined, message: ToOrchestrator | ParentToExecutor | ToChecker): void {
  if (child?.connected) child.send(message, () => undefined)
}

/** Writes to the pipe that the watching thread of the process reads, whatever its event loop does. */
export function vouchTo({ stdio }: ChildProcess): void {
  const pipe = stdio[PARENT_PIPE]
  if (pipe && 'write' in pipe && pipe.writable) pipe.write('.')
}

/** The arguments that let Node load these modules if one is TypeScript. @throws WorkerError `no_typescript_loader`. */
function typescriptLoader(...modules: readonly string[]): string[] {
  const module = modules.find((one) => /\.[mc]?tsx?$/.test(one))
  if (module === undefined) return []
  try {
    return ['--import', import.meta.resolve('tsx'), '--import', new URL(`../executor/typescript.${EXTENSION}`, import.meta.url).href]
  } catch (cause) {
    if ((process.features as { typescript?: unknown }).typescript) return []
    throw noTypescriptLoader(module, cause)
  }
}
