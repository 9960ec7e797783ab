// Puts what a test run writes (databases, scratch folders, packed packages) into memory if there is room: creating and dropping some
// hundred databases on a disk takes a tenth of the run's CPU. TMPDIR, if set, wins.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
/** More than ten times what a run takes. */
const ENOUGH_BYTES = 4 * 1024 ** 3

/** Creates the folder, names it in TMPDIR, which all processes of the run inherit, and removes it when this process exits. */
export function useFolderInMemory(): void {
  if (process.env.TMPDIR !== undefined || !hasRoom()) return
  const folder = mkdtempSync(join(MEMORY, 'pawl-tests-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  // Postgres runs as another user.
  chmodSync(folder, 0o755)
  if (runsPrograms(folder)) process.env.TMPDIR = folder
}

function hasRoom(): boolean {
  if (process.platform !== 'linux' || !existsSync(MEMORY)) return false
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize >= ENOUGH_BYTES
}

/** Containers often mount it with `noexec`. */
function runsPrograms(folder: string): boolean {
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
  return spawnSync(program).status === 0
}
