// The data directory: the data of a stack's servers, and settings that must stay the same at the next start.
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, realpath, rename, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { reasonOf, StackError } from './errors.ts'

/** A folder for a stack's data. */
export interface DataDir {
  path: string
  /** `fresh`: a new folder, which is removed at the end. */
  kind: 'fresh' | 'kept'
}

/** Settings that a data directory keeps between starts. */
export interface StackState {
  /** Identifies this directory's processes by their command lines. */
  id: string
  /** The password of the database's owner. */
  password: string
  temporalPort?: number
  temporalUiPort?: number
  postgresPort?: number
}

/** The state of a data directory. Only the process with the lock reads and changes it. */
export interface StateFile {
  readonly current: Readonly<StackState>
  remember(change: Partial<StackState>): Promise<void>
}

/** Creates the folder: a new temporary one if no path is given. @throws StackError `data_dir_unusable`. */
export async function makeDataDir(given: string | undefined): Promise<DataDir> {
  try {
    if (given === undefined) return { path: await realpath(await mkdtemp(join(tmpdir(), 'pawl-stack-'))), kind: 'fresh' }
    await mkdir(given, { recursive: true })
    const path = await realpath(resolve(given))
    // It contains a password and databases, which do not belong in a repository.
    await writeFile(join(path, '.gitignore'), '*\n')
    return { path, kind: 'kept' }
  } catch (error) {
    throw unusable(given ?? tmpdir(), error)
  }
}

/** Reads the settings of a data directory, or creates them. @throws StackError `data_dir_unusable`. */
export async function openState(dir: DataDir): Promise<StateFile> {
  const file = join(dir.path, 'stack.json')
  try {
    const known = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    let current = known === undefined ? newState() : (JSON.parse(known) as StackState)
    // One write at a time: both servers store their ports as they start, and share one temporary file.
    let written = Promise.resolve()
    const write = async () => {
      await writeFile(`${file}.next`, `${JSON.stringify(current, null, 2)}\n`, { mode: 0o600 })
      await rename(`${file}.next`, file)
    }
    const remember = (change: Partial<StackState>): Promise<void> => {
      current = { ...current, ...change }
      written = written.catch(() => undefined).then(write)
      return written
    }
    if (known === undefined) await remember({})
    return {
      get current() {
        return current
      },
      remember,
    }
  } catch (error) {
    throw unusable(dir.path, error)
  }
}

function newState(): StackState {
  return { id: `pawl-${randomBytes(8).toString('hex')}`, password: randomBytes(18).toString('base64url') }
}

function unusable(path: string, cause: unknown): StackError {
  return new StackError(
    'data_dir_unusable',
    `The data directory ${path} cannot be used: ${reasonOf(cause)}. Choose a folder that this user may write to, or remove the broken one.`,
    { cause },
  )
}
