// Starts the processes of a worker.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { WorkerError } from '../errors.ts'
import type { ParentToExecutor, ToOrchestrator } from '../protocol.ts'

const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js'

/** The start options of an executor. */
export interface ExecutorScript {
  id: number
  module: string
  memoryMb: number | undefined
  /** Whether it reports the files that it loads. */
  reportsFiles: boolean
}

/** Starts an orchestrator, which may load these modules; `start` is its first message. @throws WorkerError `no_typescript_loader`. */
export function forkOrchestrator(modules: readonly string[]): ChildProcess {
  return forkScript('../orchestrator/main', [], typescriptLoader(...modules))
}

/** Starts an executor of a module. @throws WorkerError `no_typescript_loader`. */
export function forkExecutor({ id, module, memoryMb, reportsFiles }: ExecutorScript): ChildProcess {
  const memory = memoryMb === undefined ? [] : [`--max-old-space-size=${memoryMb}`]
  const args = [String(id), module, ...(reportsFiles ? ['report-files'] : [])]
  return forkScript('../executor/main', args, [...memory, ...typescriptLoader(module)])
}

/** Standard output and error are the parent's error output: its standard output may be data. */
function forkScript(script: string, args: string[], execArgv: string[]): ChildProcess {
  return fork(fileURLToPath(new URL(`${script}.${EXTENSION}`, import.meta.url)), args, {
    execArgv: [...process.execArgv.filter((arg) => !arg.startsWith('--inspect')), ...execArgv],
    serialization: 'advanced',
    stdio: ['ignore', 2, 2, 'ipc'],
  })
}

/** Sends a message to a process; errors are ignored, because an exiting process does not need it. */
export function tell(child: ChildProcess | undefined, message: ToOrchestrator | ParentToExecutor): void {
  if (child?.connected) child.send(message, () => undefined)
}

/** The arguments with which Node can load these modules if one is TypeScript. @throws WorkerError `no_typescript_loader`. */
function typescriptLoader(...modules: readonly string[]): string[] {
  const module = modules.find((one) => /\.[mc]?tsx?$/.test(one))
  if (module === undefined) return []
  try {
    return ['--import', import.meta.resolve('tsx'), '--import', new URL(`../executor/typescript.${EXTENSION}`, import.meta.url).href]
  } catch (cause) {
    if ((process.features as { typescript?: unknown }).typescript) return []
    throw new WorkerError(
      'no_typescript_loader',
      `${module} is TypeScript and the optional package tsx is not installed: npm install tsx, or use a compiled module.`,
      { cause },
    )
  }
}
