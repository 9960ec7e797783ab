// `pawl dev <module>`: the embedded stack and a supervised worker for one module.
import { resolve } from 'node:path'
import { Command } from 'commander'
import { noteRunning, noteStarting, type ServedStack } from '../../connect/dev-stack.ts'
import type { Stack } from '../../local/index.ts'
import { announceAsJson, announceAsText } from '../running/announce.ts'
import { type DevConsole, startConsole } from '../running/dev-console.ts'
import { findModule } from '../running/module.ts'
import { dataOption, jsonOption, LOG_HELP, processesOption, taskQueueOption } from '../options.ts'
import { listenForStop } from '../running/stop.ts'
import { paint } from '../terminal.ts'
import { defined } from '../../session/defined.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

interface DevOptions {
  processes: number
  taskQueue: string
  data: string
  watch: boolean
  console: boolean
  json?: true
}

export function devCommand(): Command {
  return new Command('dev')
    .description('start Temporal, Postgres and a worker for the agents of a module, on this machine')
    .argument('<module>', 'TypeScript or JavaScript file that exports an agent, a list of agents, or defineWorker({ agents })')
    .addOption(processesOption())
    .addOption(taskQueueOption())
    .addOption(dataOption())
    .option('--no-watch', 'do not reload the module when it or a file that it imports is saved')
    .option('--no-console', 'do not serve the console')
    .addOption(jsonOption())
    .addHelpText('after', LOG_HELP)
    .action(dev)
}

async function dev(given: string, options: DevOptions): Promise<void> {
  const module = await findModule(given)
  // Loaded on demand, so that `pawl --help` and a wrong path do not wait for Temporal's native library.
  const [{ startStack }, { serve }] = await Promise.all([import('../../local/index.ts'), import('../running/serve.ts')])
  const requests = listenForStop()
  const announcer = options.json ? announceAsJson() : announceAsText((served) => hints(served, options))
  const dataDir = resolve(options.data)
  const started = await noteStarting(dataDir)
  let forget = started
  let stack: Stack | undefined
  let page: DevConsole | undefined
  try {
    stack = await startStack({ dataDir, onDeath: 'restart', onProgress: announcer.progress })
    if (requests.stopping()) return
    const { temporalAddress, temporalUi, namespace, databaseUrl, lost } = stack
    const { processes, taskQueue } = options
    const served: ServedStack = { temporalAddress, ...defined({ temporalUi }), namespace, taskQueue, databaseUrl }
    const at = { temporal: { address: temporalAddress, namespace }, taskQueue, postgres: databaseUrl }
    // On a developer's machine, the memory of a spare costs more than the second that it saves after a rare death.
    const workers = { module, processes, spare: false, ...at }
    const whenReady = async () => {
      forget = await noteRunning(dataDir, { ...served })
      await started()
      if (!options.console) return
      page = await startConsole(at)
      served.console = page.url
    }
    // A webhook's target is probably on this machine, too.
    process.env.PAWL_WEBHOOKS ??= 'private'
    await serve(workers, served, { announcer, requests, watch: options.watch, whenReady, lost })
  } finally {
    await forget()
    await page?.stop()
    await stack?.stop()
  }
}

function hints(served: ServedStack, options: DevOptions): string[] {
  const folder = options.data === '.pawl' ? '' : ` --data ${options.data}`
  return [
    '',
    `Talk to an agent:     ${paint('bold', `npx ${SUGGESTIONS.chat()}${folder}`)}`,
    'Talk from a backend:  Pawl.connect() in this folder or below it; elsewhere, set these variables',
    `  export TEMPORAL_ADDRESS=${served.temporalAddress} DATABASE_URL='${served.databaseUrl}'`,
    '',
  ]
}
