// The user that runs Postgres. Postgres refuses to run as root, so root needs another user for it.
import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'
import { StackError } from '../errors.ts'

const run = promisify(execFile)

/** A system user other than the user of this process. */
export interface ServerUser {
  name: string
  uid: number
  gid: number
}

/** Any user other than root will do. These exist nearly everywhere, so that no user has to be created. */
const CANDIDATES = ['postgres', 'nobody']

/**
 * The user for a server with its data in `dataDir`; undefined for the user of this process, which is used unless it is root.
 * Existing data stays with its owner.
 * @throws StackError `postgres_not_found`.
 */
export async function serverUser(dataDir: string): Promise<ServerUser | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const owner = await stat(dataDir).catch(() => undefined)
  if (owner && owner.uid !== 0) return { name: String(owner.uid), uid: owner.uid, gid: owner.gid }
  for (const name of CANDIDATES) {
    const ids = await Promise.all([idOf('-u', name), idOf('-g', name)]).catch(() => undefined)
    if (ids) return { name, uid: ids[0], gid: ids[1] }
  }
  throw new StackError(
    'postgres_not_found',
    `Postgres refuses to run as root, and there is no user ${CANDIDATES.join(' or ')} to run it: create one ("useradd --system postgres"), ` +
      'run this command as another user, or set DATABASE_URL.',
  )
}

/** Whether the user may run a program. Tries it as that user. */
export async function mayRun(path: string, user: ServerUser | undefined): Promise<boolean> {
  const as = user ? { uid: user.uid, gid: user.gid } : {}
  return run('/bin/sh', ['-c', 'cd / && exec "$0" --version', path], {
    ...as,
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
    cwd: '/',
  }).then(
    () => true,
    () => false,
  )
}

async function idOf(which: '-u' | '-g', name: string): Promise<number> {
  const { stdout } = await run('id', [which, name])
  return Number.parseInt(stdout, 10)
}
