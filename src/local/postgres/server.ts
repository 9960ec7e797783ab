// Runs an embedded Postgres on a cluster of the data directory, and waits until it answers.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { DataDir, StateFile } from '../data-dir.ts'
import { reasonOf, StackError } from '../errors.ts'
import type { Keeper, KeptProcess } from '../keeper/keeper.ts'
import { logTail } from '../log-tail.ts'
import { freePort } from '../ports.ts'
import { embeddedServer, type WatchedServer } from '../server.ts'
import { postgresBinaries } from './binaries.ts'
import { withClient } from './client.ts'
import { asSeenFromWithin, ensureCluster, OWNER, POSTGRES_ENV, removeStalePidFile, runAs, type Cluster } from './cluster.ts'
import { serverUser } from './user.ts'

/** The stack's Postgres. */
export interface PostgresServer {
  server: WatchedServer
  url: string
}

/** What an embedded server needs to start. */
export interface PostgresPlace {
  keeper: Keeper
  dir: DataDir
  state: StateFile
  env: NodeJS.ProcessEnv
}

const NAME = 'postgres'
const READY_MS = 60_000
/** Another process may take a port between this process's check and the server's start. */
const PORT_TRIES = 3
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  // A socket file would need a folder that the server's user may write to.
  unix_socket_directories: '',
  max_connections: '200',
}
/** Postgres' codes for "still starting up" and "shutting down". */
const NOT_YET = new Set(['57P03', 'ECONNREFUSED', 'ECONNRESET'])

/** Starts Postgres and waits until it answers. @throws StackError `postgres_not_found`, `postgres_version`, `postgres_start_failed`. */
export async function startPostgres({ keeper, dir, state, env }: PostgresPlace): Promise<PostgresServer> {
  const path = join(dir.path, 'postgres')
  const user = await serverUser(path)
  const cluster: Cluster = {
    keeper,
    binaries: await postgresBinaries(user, env),
    user,
    path,
    id: state.current.id,
    password: state.current.password,
    logFile: join(dir.path, 'postgres.log'),
  }
  await ensureCluster(cluster).catch((cause: unknown) => {
    throw cause instanceof StackError ? cause : startFailed(cluster, cause)
  })

  let running: KeptProcess | undefined
  for (let tries = 1; running === undefined; tries++) {
    const port = await freePort(state.current.postgresPort === undefined ? [] : [state.current.postgresPort])
    await state.remember({ postgresPort: port })
    running = await launch(cluster, port).catch((error: unknown) => {
      if (tries === PORT_TRIES) throw error
      return undefined
    })
  }

  const port = state.current.postgresPort ?? 0
  const url = urlAt(cluster, port, OWNER)
  await ensureDatabase(urlAt(cluster, port, 'postgres'))
  return {
    url,
    server: embeddedServer(running, {
      launch: () => launch(cluster, port),
      // Fast shutdown disconnects its clients. Immediate shutdown is a crash, from which it recovers at the next start.
      end: (how) => keeper.stop(NAME, how === 'orderly' ? 'SIGINT' : 'SIGQUIT'),
    }),
  }
}

async function launch(cluster: Cluster, port: number): Promise<KeptProcess> {
  const { keeper, binaries, user, path, id, logFile } = cluster
  const settings = Object.entries({ ...SETTINGS, port: String(port), cluster_name: id })
  await removeStalePidFile(cluster)
  try {
    const running = await keeper.start(NAME, {
      command: binaries.postgres,
      args: ['-D', asSeenFromWithin(path, user), ...settings.flatMap(([key, value]) => ['-c', `${key}=${value}`])],
      cwd: path,
      env: POSTGRES_ENV,
      ...runAs(user),
      logFile,
      stopSignal: 'SIGINT',
      marker: id,
    })
    await untilAnswering(running, urlAt(cluster, port, 'postgres'))
    return running
  } catch (cause) {
    await keeper.stop(NAME, 'SIGQUIT')
    throw startFailed(cluster, new Error(`${reasonOf(cause)}. Its log: ${await logTail(logFile)}`, { cause }))
  }
}

async function untilAnswering(running: KeptProcess, url: string): Promise<void> {
  const until = Date.now() + READY_MS
  while (Date.now() < until) {
    const exit = running.exit()
    if (exit) throw new Error(`it ended with ${exit.signal ?? `code ${exit.code}`}`)
    const answers = await withClient(url, (client) => client.query('select 1')).then(
      () => true,
      (error: unknown) => {
        if (isNotYet(error)) return false
        throw error
      },
    )
    if (answers && !running.exit()) return
    await sleep(25)
  }
  throw new Error(`it did not answer within ${READY_MS / 1_000} s`)
}

function isNotYet(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && NOT_YET.has(error.code)
}

async function ensureDatabase(url: string): Promise<void> {
  await withClient(url, async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [OWNER])
    if (rowCount === 0) await client.query(`create database ${pg.escapeIdentifier(OWNER)}`)
  })
}

function urlAt({ password }: Cluster, port: number, database: string): string {
  return `postgres://${OWNER}:${password}@127.0.0.1:${port}/${database}`
}

function startFailed({ path }: Cluster, cause: unknown): StackError {
  return new StackError(
    'postgres_start_failed',
    `The embedded Postgres in ${path} did not start: ${reasonOf(cause)}. Fix the cause, or set DATABASE_URL to your own Postgres.`,
    { cause },
  )
}
