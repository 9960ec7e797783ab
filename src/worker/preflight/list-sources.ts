// Lists the tools of the MCP servers of a worker module's agents. User code runs only in a process of its own.
import { crossed } from '../crossed.ts'
import { moduleExited, moduleHangs } from '../parent/executor-process.ts'
import { forkLister, killGroup } from '../parent/processes.ts'
import type { FromLister, ListedSource } from '../protocol.ts'

/** How long the module and its servers may take together. */
const LIST_MS = 60_000

/** Loads a module and asks its servers. @throws WorkerError, DeclarationError if the module cannot be loaded. */
export async function listSources(module: string): Promise<ListedSource[]> {
  const child = forkLister(module)
  let late: NodeJS.Timeout | undefined
  try {
    return await new Promise<ListedSource[]>((resolve, reject) => {
      late = setTimeout(() => reject(moduleHangs(module, LIST_MS)), LIST_MS)
      child.on('message', (message: FromLister) => {
        if (message?.pawl === 'listed') resolve(message.sources)
        else if (message?.pawl === 'start_failed') reject(crossed(message.error))
      })
      child.once('error', () => reject(moduleExited(module, null)))
      child.once('exit', (code) => reject(moduleExited(module, code)))
    })
  } finally {
    clearTimeout(late)
    killGroup(child)
  }
}
