// The lock of a data directory: names its keeper and the keeper's processes, so that the next one can tell a live owner from
// a dead one and end what a dead one left running.
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning } from './processes.ts'

/** A process that a keeper started. */
export interface LockedProcess {
  pid: number
  marker: string
  stopSignal: NodeJS.Signals
}

interface LockContent {
  pid: number
  processes: LockedProcess[]
}

/** An earlier keeper may be about to end: how long to wait for it. */
const PATIENCE_MS = 15_000

/** Takes the lock, waiting for a keeper that is about to end. Gives the processes that a dead owner left, or the live owner's pid. */
export async function takeLock(path: string): Promise<{ left: LockedProcess[] } | { heldBy: number }> {
  const mine = `${path}.${process.pid}`
  const until = Date.now() + PATIENCE_MS
  const left: LockedProcess[] = []
  await writeFile(mine, JSON.stringify({ pid: process.pid, processes: [] } satisfies LockContent))
  try {
    for (;;) {
      // A link appears with its content or not at all, and only one of several at once.
      const taken = await link(mine, path).then(() => true, failUnless('EEXIST'))
      if (taken) return { left }
      const owner = await readLock(path)
      if (owner && (await isRunning(owner.pid, path))) {
        if (Date.now() > until) return { heldBy: owner.pid }
        await sleep(100)
        continue
      }
      left.push(...(owner?.processes ?? []))
      await rm(path, { force: true })
    }
  } finally {
    await rm(mine, { force: true })
  }
}

/** Writes into the lock which processes its owner has. */
export async function writeLock(path: string, processes: readonly LockedProcess[]): Promise<void> {
  const next = `${path}.${process.pid}`
  await writeFile(next, JSON.stringify({ pid: process.pid, processes: [...processes] } satisfies LockContent))
  await rename(next, path)
}

async function readLock(path: string): Promise<LockContent | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as LockContent
  } catch {
    return undefined
  }
}

function failUnless(code: string): (error: NodeJS.ErrnoException) => false {
  return (error) => {
    if (error.code === code) return false
    throw error
  }
}
