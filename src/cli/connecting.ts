// Finds a command's deployment: by its options, the environment, or a running `pawl dev`.
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command, Option } from 'commander'
import type { Logger } from '../agent/tool.ts'
import type { ConnectOptions } from '../client/connect-options.ts'
import type { Pawl } from '../client/pawl.ts'
import type { QueriesOptions } from '../client/queries/queries-options.ts'
import { DATA_FOLDER, type Deployment, findDevDeployment, findRunning, findStarting } from '../connect/dev-stack.ts'
import type { Wait } from '../connect/waits.ts'
import { CliError } from './errors.ts'
import { dataOption, option } from './options.ts'
import { PawlError } from '../session/errors.ts'
import { withNearIds } from './near-ids.ts'
import { defined } from '../session/defined.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

const print = (_: object, message = ''): void => void process.stderr.write(`${message}\n`)
const ignore = (): void => {}
/** Prints warnings to standard error, because standard output may be read by a program. */
const ON_STDERR: Logger = { debug: ignore, info: ignore, warn: print, error: print }

/** Concurrent calls may wait for the same thing; it is printed at most once within this time. */
const REPEAT_AFTER_MS = 4_000

function waitPrinter(): (wait: Wait) => void {
  const printedAt = new Map<string, number>()
  return ({ for: what, ms }) => {
    const now = Date.now()
    if (now - (printedAt.get(what) ?? 0) < REPEAT_AFTER_MS) return
    printedAt.set(what, now)
    ON_STDERR.warn({}, `waiting for ${what} (${Math.round(ms / 1_000)} s)`)
  }
}

export interface DeploymentOptions {
  data: string
  taskQueue?: string
  schema?: string
}

/** The options that select a deployment. */
export function deploymentOptions(): Option[] {
  return [
    dataOption(),
    option('--task-queue <name>', "Temporal task queue (default: that of the running `pawl dev`, else 'pawl')"),
    option('--schema <name>', "Postgres schema of the side store (default: 'pawl')"),
  ]
}

/** Adds the options that select a deployment. */
export function aboutDeployment(command: Command): Command {
  for (const each of deploymentOptions()) command.addOption(each)
  return command
}

/**
 * The addresses of the stack: from the environment, otherwise from the file of a running `pawl dev` in its data folder.
 * @throws CliError `dev_not_running` if `--data` names a folder without a running `pawl dev`.
 */
export async function connectOptions({ data, taskQueue, schema }: DeploymentOptions): Promise<ConnectOptions & Deployment> {
  const named = data === DATA_FOLDER ? undefined : resolve(data)
  await awaitStarting(named)
  if (named !== undefined && !(await findRunning(named))) {
    throw new CliError(
      'dev_not_running',
      `No \`${SUGGESTIONS.develop()}\` is running with the data folder ${named}. Start one with --data, or omit --data.`,
    )
  }
  return {
    ...(await findDevDeployment(named)),
    ...defined({ taskQueue, schema }),
    logger: ON_STDERR,
    onWait: waitPrinter(),
  }
}

/** How long a command waits for a `pawl dev` that is starting. */
const STARTS_WITHIN_MS = 15_000
const LOOK_EVERY_MS = 200

/** Waits for a `pawl dev` that is starting, unless the environment names a server. @throws CliError `dev_starting`. */
async function awaitStarting(dataDir: string | undefined): Promise<void> {
  if (process.env.TEMPORAL_ADDRESS || process.env.DATABASE_URL) return
  const runs = dataDir === undefined ? (await findDevDeployment()).temporal : await findRunning(dataDir)
  if (runs) return
  let folder = await findStarting(dataDir)
  if (folder === undefined) return
  ON_STDERR.warn({}, `waiting for \`${SUGGESTIONS.develop()}\`, which is starting in ${dirname(folder)}`)
  for (const until = Date.now() + STARTS_WITHIN_MS; folder !== undefined; folder = await findStarting(dataDir)) {
    if (Date.now() > until) {
      throw new CliError(
        'dev_starting',
        `\`${SUGGESTIONS.develop()}\` in ${dirname(folder)} is still starting. Its terminal says what it waits for. Try again when it is ready.`,
      )
    }
    await sleep(LOOK_EVERY_MS)
  }
}

/** Connects, runs `work` and closes. The client is loaded on demand, so that `pawl --help` is fast. */
export async function onDeployment<T>(options: DeploymentOptions, work: (pawl: Pawl) => Promise<T>): Promise<T> {
  const { Pawl } = await import('../client/index.ts')
  const pawl = await Pawl.connect(await connectOptions(options))
  try {
    return await work(pawl)
  } catch (error) {
    throw await withIdsOf(options, error)
  } finally {
    await pawl.close()
  }
}

/** Opens an administrative interface that needs only the side store, not Temporal; runs `work` and closes it. */
export async function onStoreAlone<A extends { close(): Promise<void> }, T>(
  options: DeploymentOptions,
  open: (store: QueriesOptions) => A,
  work: (opened: A) => Promise<T>,
): Promise<T> {
  const { postgres, schema, onWait } = await connectOptions(options)
  const opened = open(defined({ postgres: typeof postgres === 'string' ? postgres : undefined, schema, onWait }))
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/** Only the side store can list ids; without one, the error stays as it is. */
async function withIdsOf(options: DeploymentOptions, error: unknown): Promise<unknown> {
  if (!(error instanceof PawlError) || error.code !== 'session_not_found') return error
  try {
    const { openQueries } = await import('../client/queries/queries.ts')
    const { postgres, schema } = await connectOptions(options)
    const queries = openQueries({ ...(typeof postgres === 'string' && { postgres }), ...defined({ schema }) })
    const told = await withNearIds(error, queries)
    await queries.close()
    return told
  } catch {
    return error
  }
}
