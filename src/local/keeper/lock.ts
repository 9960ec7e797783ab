// The lock of a data directory. It names its keeper and the keeper's processes, so that the next keeper can tell a live owner from a dead
// one, and stop the processes that a dead one left running.
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning } from './processes.ts'

/** A process that a keeper started. */
export interface LockedProcess {
  pid: number
  marker: string
  stopSignal: NodeJS.Signals
}

/** A keeper that is `ending` will soon release the lock. */
type KeeperState = 'keeping' | 'ending'

interface LockContent {
  pid: number
  state: KeeperState
  processes: LockedProcess[]
}

/** How long to wait for a keeper that is ending: longer than it waits for its servers. */
const PATIENCE_MS = 15_000
/** A keeper may not have noticed yet that its owner was just killed. */
const NOTICE_MS = 1_000

/**
 * Acquires the lock, and waits for a keeper that is ending. Returns the processes that a dead owner left behind, or the live owner's pid.
 */
export async function takeLock(path: string): Promise<{ left: LockedProcess[] } | { heldBy: number }> {
  const mine = `${path}.${process.pid}`
  const begun = Date.now()
  const left: LockedProcess[] = []
  await writeFile(mine, content('keeping', []))
  try {
    for (;;) {
      // A link appears with its content or not at all, and only one of several concurrent links succeeds.
      const taken = await link(mine, path).then(() => true, failUnless('EEXIST'))
      if (taken) return { left }
      const owner = await readLock(path)
      if (owner && (await isRunning(owner.pid, path))) {
        if (Date.now() - begun > (owner.state === 'ending' ? PATIENCE_MS : NOTICE_MS)) return { heldBy: owner.pid }
        await sleep(100)
        continue
      }
      if (await removeStale(path, owner)) left.push(...(owner?.processes ?? []))
    }
  } finally {
    await rm(mine, { force: true })
  }
}

/** The state of the live keeper that has the lock; undefined if there is none. */
export async function lockOwner(path: string): Promise<KeeperState | undefined> {
  const owner = await readLock(path)
  return owner && (await isRunning(owner.pid, path)) ? owner.state : undefined
}

/** Writes the owner's state and processes into the lock. */
export async function writeLock(path: string, state: KeeperState, processes: readonly LockedProcess[]): Promise<void> {
  const next = `${path}.${process.pid}`
  await writeFile(next, content(state, processes))
  await rename(next, path)
}

/** Removes a dead owner's lock, unless another process has replaced it since it was read. */
async function removeStale(path: string, owner: LockContent | undefined): Promise<boolean> {
  const aside = `${path}.stale.${process.pid}`
  const moved = await rename(path, aside).then(() => true, failUnless('ENOENT'))
  if (!moved) return false
  const removed = await readLock(aside)
  if (removed?.pid !== owner?.pid) await link(aside, path).catch(failUnless('EEXIST'))
  await rm(aside, { force: true })
  return removed?.pid === owner?.pid
}

function content(state: KeeperState, processes: readonly LockedProcess[]): string {
  return JSON.stringify({ pid: process.pid, state, processes: [...processes] } satisfies LockContent)
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
