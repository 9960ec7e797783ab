// The file that a running `pawl dev` writes to its data folder, so that clients and commands in the project folder find the stack.
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { TemporalAddress } from './temporal-address.ts'

/** The addresses of a running stack. */
export interface ServedStack {
  temporalAddress: string
  temporalUi?: string
  namespace: string
  taskQueue: string
  databaseUrl?: string
  /** The address of the console, with the key that opens it. */
  console?: string
}

/** The content of the file. */
export interface DevStack extends ServedStack {
  /** The process id of the `pawl dev` that wrote the file. */
  pid: number
}

/** Where a client finds a deployment; absent members are unknown. */
export interface Deployment {
  temporal?: TemporalAddress
  taskQueue?: string
  postgres?: string
}

/** The default data folder of `pawl dev`. */
export const DATA_FOLDER = '.pawl'
const FILE = 'dev.json'
const STARTING = 'starting.json'

/** Writes the file; the returned function removes it, unless another `pawl dev` has replaced it since. */
export async function noteRunning(dataDir: string, stack: ServedStack): Promise<() => Promise<void>> {
  const path = join(dataDir, FILE)
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${process.pid}`
  const note: DevStack = { pid: process.pid, ...stack }
  // It contains the database's password, so only its owner may read it. Renamed into place, so that no reader sees half of it.
  await writeFile(draft, `${JSON.stringify(note, null, 2)}\n`, { mode: 0o600 })
  await rename(draft, path)
  return async () => {
    if ((await read(path))?.pid === process.pid) await rm(path, { force: true })
  }
}

/** Writes that a `pawl dev` is starting in this data folder; the returned function removes the note, unless another one has replaced it. */
export async function noteStarting(dataDir: string): Promise<() => Promise<void>> {
  const path = join(dataDir, STARTING)
  await mkdir(dataDir, { recursive: true })
  await writeFile(path, JSON.stringify({ pid: process.pid }))
  return async () => {
    if ((await starterIn(dataDir)) === process.pid) await rm(path, { force: true })
  }
}

/** The data folder of a `pawl dev` that is starting: this one, or that of the working directory or of one above it. */
export async function findStarting(dataDir?: string): Promise<string | undefined> {
  if (dataDir !== undefined) return (await isStarting(dataDir)) ? dataDir : undefined
  return nearest(process.cwd(), async (near) => ((await isOurs(join(near, STARTING))) && (await isStarting(near)) ? near : undefined))
}

async function isStarting(dataDir: string): Promise<boolean> {
  const pid = await starterIn(dataDir)
  return pid !== undefined && isAlive(pid)
}

async function starterIn(dataDir: string): Promise<number | undefined> {
  const pid = (await read(join(dataDir, STARTING)))?.pid
  return typeof pid === 'number' ? pid : undefined
}

/**
 * The deployment of the `pawl dev` that runs in the working directory or one above it (or with this data folder), except for parts that the
 * environment names. If `TEMPORAL_*` names another Temporal server, the result is empty.
 */
export async function findDevDeployment(dataDir?: string): Promise<Deployment> {
  const { TEMPORAL_ADDRESS, TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE, TEMPORAL_NAMESPACE, DATABASE_URL } = process.env
  const stack = dataDir === undefined ? await findAbove(process.cwd()) : await findRunning(dataDir)
  const elsewhere = (TEMPORAL_ADDRESS || TEMPORAL_PROFILE || TEMPORAL_CONFIG_FILE) && TEMPORAL_ADDRESS !== stack?.temporalAddress
  if (!stack || elsewhere) return {}
  const { temporalAddress: address, namespace, taskQueue, databaseUrl } = stack
  return {
    // A key and certificates in the environment are for another server.
    temporal: { address, namespace: TEMPORAL_NAMESPACE || namespace, tls: false, apiKey: '' },
    taskQueue,
    ...(databaseUrl && !DATABASE_URL && { postgres: databaseUrl }),
  }
}

/** The stack of the `pawl dev` that runs with this data folder; null if none does. */
export async function findRunning(dataDir: string): Promise<DevStack | null> {
  const note = await read(join(dataDir, FILE))
  return typeof note?.pid === 'number' && typeof note.temporalAddress === 'string' && isAlive(note.pid) ? (note as DevStack) : null
}

/**
 * The nearest running stack in a folder or one above it. Ignores another user's file, which would direct messages to that user's server.
 */
async function findAbove(folder: string): Promise<DevStack | undefined> {
  return nearest(folder, async (dataDir) => ((await isOurs(join(dataDir, FILE))) ? ((await findRunning(dataDir)) ?? undefined) : undefined))
}

/** The first result among the data folders of `folder` and the folders above it. */
async function nearest<T>(folder: string, find: (dataDir: string) => Promise<T | undefined>): Promise<T | undefined> {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const found = await find(join(at, DATA_FOLDER))
    if (found !== undefined || at === dirname(at)) return found
  }
}

async function isOurs(path: string): Promise<boolean> {
  try {
    return (await stat(path)).uid === (process.getuid?.() ?? 0)
  } catch {
    return false
  }
}

async function read(path: string): Promise<Partial<DevStack> | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Partial<DevStack> | null
  } catch {
    return null
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process is alive, and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
