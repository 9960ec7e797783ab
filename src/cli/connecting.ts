// How a command finds the deployment that it is about: by its options, the environment, or a `pawl dev` that runs.
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { Logger } from '../agent/tool.ts'
import type { ConnectOptions } from '../client/connect-options.ts'
import type { Pawl } from '../client/pawl.ts'
import { DATA_FOLDER, findDevDeployment, findRunning } from '../connect/dev-stack.ts'
import type { Wait } from '../connect/waits.ts'
import { CliError } from './errors.ts'
import { dataOption } from './options.ts'
import { defined } from '../session/defined.ts'

const tell = (_: object, message = ''): void => void process.stderr.write(`${message}\n`)
const ignore = (): void => {}
/** Warnings for the person at the terminal: standard output may be a program's input. */
const ON_STDERR: Logger = { debug: ignore, info: ignore, warn: tell, error: tell }

/** Several calls at once may wait for the same. */
const SAID_AGAIN_MS = 4_000

function sayWaits(): (wait: Wait) => void {
  const saidAt = new Map<string, number>()
  return ({ for: what, ms }) => {
    const now = Date.now()
    if (now - (saidAt.get(what) ?? 0) < SAID_AGAIN_MS) return
    saidAt.set(what, now)
    ON_STDERR.warn({}, `waiting for ${what} (${Math.round(ms / 1_000)} s)`)
  }
}

/** Which deployment. */
export interface DeploymentOptions {
  data: string
  taskQueue?: string
  schema?: string
}

/** Adds the options that say which deployment a command is about. */
export function aboutDeployment(command: Command): Command {
  return command
    .addOption(dataOption())
    .option('--task-queue <name>', "Temporal task queue (default: that of the running `pawl dev`, else 'pawl')")
    .option('--schema <name>', "Postgres schema (default: 'pawl')")
}

/**
 * Where the stack is: what the environment says, else what a running `pawl dev` noted in its data folder.
 * @throws CliError `dev_not_running` for a folder that was named and has none.
 */
export async function connectOptions({ data, taskQueue, schema }: DeploymentOptions): Promise<ConnectOptions> {
  const named = data === DATA_FOLDER ? undefined : resolve(data)
  if (named !== undefined && !(await findRunning(named))) {
    throw new CliError('dev_not_running', `No \`pawl dev\` runs with the data folder ${named}: start one with --data, or leave --data out.`)
  }
  return {
    ...(await findDevDeployment(named)),
    ...defined({ taskQueue, schema }),
    logger: ON_STDERR,
    onWait: sayWaits(),
  }
}

/** Connects, works and closes. The client is loaded when it is needed: `pawl --help` need not wait for it. */
export async function onDeployment<T>(options: DeploymentOptions, work: (pawl: Pawl) => Promise<T>): Promise<T> {
  const { Pawl } = await import('../client/index.ts')
  const pawl = await Pawl.connect(await connectOptions(options))
  try {
    return await work(pawl)
  } finally {
    await pawl.close()
  }
}
