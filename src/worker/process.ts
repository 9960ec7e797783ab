// One worker process as its supervisor sees it.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { WorkerError } from './errors.ts'
import type { ChildOptions } from './child.ts'
import type { FromWorker, ToWorker } from './messages.ts'

/** Starts the process. Its standard output and error are the supervisor's error output: stdout may be somebody's data. */
export function startProcess(options: ChildOptions): ChildProcess {
  const script = fileURLToPath(new URL(`./child${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url))
  return fork(script, [], {
    env: { ...process.env, PAWL_CHILD_OPTIONS: JSON.stringify(options) },
    execArgv: [...process.execArgv.filter((arg) => !arg.startsWith('--inspect')), ...typescriptLoader(options.module)],
    serialization: 'advanced',
    stdio: ['ignore', 2, 2, 'ipc'],
  })
}

/** Sends a message to a process; one that is going does not need it. */
export function tell(child: ChildProcess, message: ToWorker): void {
  if (child.connected) child.send(message, () => undefined)
}

/** Hears a process's messages. */
export function hear(child: ChildProcess, listener: (message: FromWorker) => void): void {
  child.on('message', (message) => listener(message as FromWorker))
}

/** What Node needs to load a TypeScript module. @throws WorkerError `no_typescript_loader`. */
function typescriptLoader(module: string): string[] {
  if (!/\.[mc]?tsx?$/.test(module)) return []
  try {
    return [
      '--import',
      import.meta.resolve('tsx'),
      '--import',
      new URL(`./typescript${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url).href,
    ]
  } catch (cause) {
    if ((process.features as { typescript?: unknown }).typescript) return []
    throw new WorkerError(
      'no_typescript_loader',
      `${module} is TypeScript and the optional package tsx is not installed: npm install tsx, or give a compiled module.`,
      { cause },
    )
  }
}
