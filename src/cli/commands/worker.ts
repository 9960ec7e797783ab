// `pawl worker <module>`: a supervised worker for one module, with an existing Temporal and Postgres.
import { Command, Option } from 'commander'
import type { Duration } from '../../session/duration.ts'
import type { SuperviseOptions } from '../../worker/options.ts'
import type { ServedStack } from '../../connect/dev-stack.ts'
import { announceAsJson, announceAsText } from '../running/announce.ts'
import { findModule } from '../running/module.ts'
import { executorMemoryOption, healAfterOption, jsonOption, LOG_HELP, processesOption, taskQueueOption } from '../options.ts'
import { listenForStop } from '../running/stop.ts'
import { defined } from '../../session/defined.ts'

interface WorkerCommandOptions {
  processes: number
  executorMemory?: number
  healAfter: Duration | false
  spare: boolean
  taskQueue: string
  schema: string
  migrate: NonNullable<SuperviseOptions['migrate']>
  json?: true
}

export function workerCommand(): Command {
  return new Command('worker')
    .description('run a worker for the agents of a module; TEMPORAL_* and DATABASE_URL name the servers')
    .argument('<module>', 'TypeScript or JavaScript file that exports an agent, a list of agents, or defineWorker({ agents })')
    .addOption(processesOption())
    .addOption(executorMemoryOption())
    .addOption(healAfterOption())
    .option('--no-spare', 'run no spare orchestrator: saves about 100 MB, but an orchestrator that dies takes longer to replace')
    .addOption(taskQueueOption())
    .option('--schema <name>', 'Postgres schema of the side store', 'pawl')
    .addOption(
      new Option(
        '--migrate <mode>',
        'what to do with missing migrations at startup: apply them, refuse to write without them, or ignore them',
      )
        .choices(['auto', 'check', 'off'])
        .default('auto'),
    )
    .addOption(jsonOption())
    .addHelpText('after', LOG_HELP)
    .action(work)
}

async function work(given: string, options: WorkerCommandOptions): Promise<void> {
  const module = await findModule(given)
  const announcer = options.json ? announceAsJson() : announceAsText(() => [])
  const { processes, executorMemory, healAfter, spare, taskQueue, schema, migrate } = options
  const requests = listenForStop()
  // Loaded on demand, as in `pawl dev`.
  const [{ configuredTemporal }, { serve }] = await Promise.all([import('../../connect/temporal.ts'), import('../running/serve.ts')])
  const { address: temporalAddress, namespace } = configuredTemporal()
  const databaseUrl = process.env.DATABASE_URL
  const stack: ServedStack = { temporalAddress, namespace, taskQueue, ...(databaseUrl && { databaseUrl: withoutPassword(databaseUrl) }) }
  const workers = { module, processes, healAfter, spare, taskQueue, schema, migrate, ...defined({ executorMemory }) }
  await serve(workers, stack, { announcer, requests, watch: false })
}

/** The URL for the log, without the password. */
function withoutPassword(databaseUrl: string): string {
  if (!URL.canParse(databaseUrl)) return '(DATABASE_URL)'
  const url = new URL(databaseUrl)
  if (url.password) url.password = '***'
  if (url.searchParams.has('password')) url.searchParams.set('password', '***')
  return url.href
}
