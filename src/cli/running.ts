// The note that a running `pawl dev` leaves in its data folder, so that `pawl chat` finds the stack without being told.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ServedStack } from './announce.ts'

/** What the note says. */
export interface RunningStack extends ServedStack {
  /** Of the `pawl dev` that wrote it. */
  pid: number
}

const FILE = 'dev.json'

/** Writes the note; the answer removes it again, unless another `pawl dev` has written its own since. */
export async function noteRunning(dataDir: string, stack: ServedStack): Promise<() => Promise<void>> {
  const path = join(dataDir, FILE)
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${process.pid}`
  const note: RunningStack = { pid: process.pid, ...stack }
  // The database's password stands in it: for its owner only. Renamed into place, so that no reader sees half of it.
  await writeFile(draft, `${JSON.stringify(note, null, 2)}\n`, { mode: 0o600 })
  await rename(draft, path)
  return async () => {
    if ((await read(path))?.pid === process.pid) await rm(path, { force: true })
  }
}

/** The stack of the `pawl dev` that runs with this data folder; null if none does. */
export async function findRunning(dataDir: string): Promise<RunningStack | null> {
  const note = await read(join(dataDir, FILE))
  return note && isAlive(note.pid) ? note : null
}

async function read(path: string): Promise<RunningStack | null> {
  try {
    const note = JSON.parse(await readFile(path, 'utf8')) as Partial<RunningStack> | null
    return typeof note?.pid === 'number' && typeof note.temporalAddress === 'string' ? (note as RunningStack) : null
  } catch {
    return null
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Somebody else's process is alive as well.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
