// pawl's cache directory for downloads and builds. All projects and processes of a machine share it.
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

/** `$PAWL_CACHE_DIR`, else `$XDG_CACHE_HOME/pawl`, else `~/.cache/pawl`. */
export function cacheDir(env: NodeJS.ProcessEnv): string {
  if (env.PAWL_CACHE_DIR) return resolve(env.PAWL_CACHE_DIR)
  if (env.XDG_CACHE_HOME) return join(resolve(env.XDG_CACHE_HOME), 'pawl')
  return join(env.HOME || homedir(), '.cache', 'pawl')
}

/**
 * Passes `make` a fresh folder below `parent`, and removes the folder afterwards. `make` renames its result to its final path. The folder
 * is on the same file system, so other processes see the whole result or nothing, however many of them build it at once.
 */
export async function inScratch<T>(parent: string, make: (scratch: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true })
  const scratch = await mkdtemp(join(parent, '.making-'))
  try {
    return await make(scratch)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}
