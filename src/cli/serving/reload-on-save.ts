// Reloads a served module when it is saved, or a file that it imports. While it cannot be loaded, the code before it keeps serving.
import { setTimeout as sleep } from 'node:timers/promises'
import { relative, resolve } from 'node:path'
import { PawlError } from '../../session/errors.ts'
import type { Supervisor } from '../../worker/options.ts'
import type { Announcer } from './announce.ts'
import { type SavedFile, watchFiles } from './file-watch.ts'

/** After so long without an outcome it is said that the module still loads. */
const SLOW_MS = 10_000

/** Reloads when something is saved. */
export interface ReloadOnSave {
  /** An executor has loaded this file, or misses it. */
  onFile(path: string): void
  /** From now on; what was saved while the workers started counts. */
  begin(supervisor: Pick<Supervisor, 'reload'>): void
  end(): void
}

/** Watches a module that is about to be served. */
export function reloadOnSave(given: string, announcer: Announcer): ReloadOnSave {
  const path = resolve(given)
  const module = nameOf(path)
  let supervisor: Pick<Supervisor, 'reload'> | undefined
  /** The newest load of the module: what it loaded, and since when. */
  let load = newLoad(path)
  /** Saved, and not served yet. */
  let saved = new Set<string>()
  let hasFailed = false
  const files = watchFiles(onSaved)
  files.add(path, load.since)

  function onSaved(written: SavedFile[]): void {
    // A file that is saved as it was changes nothing; but what made the module fail may have been something else.
    if (!hasFailed && !written.some(({ isNew }) => isNew)) return
    for (const file of written) saved.add(nameOf(file.path))
    if (supervisor) void reload(supervisor)
  }

  async function reload({ reload: replace }: Pick<Supervisor, 'reload'>): Promise<void> {
    const mine = newLoad(path)
    load = mine
    announcer.reloading()
    void sleep(SLOW_MS, undefined, { ref: false }).then(() => load === mine && !mine.isOver && announcer.progress(stillLoads(module)))
    const failure = await outcomeOf(replace)
    mine.isOver = true
    // A later save has begun another one, or all of it ends.
    if (load !== mine) return
    const told = { module, files: [...saved], ms: Date.now() - mine.since }
    saved = new Set()
    hasFailed = failure !== undefined
    if (failure) return announcer.reloadFailed({ ...told, code: failure.code, message: failure.message })
    files.keepOnly(mine.files)
    announcer.reloaded(told)
  }

  return {
    onFile(file) {
      load.files.add(file)
      files.add(file, load.since)
    },
    begin(given) {
      supervisor = given
      if (saved.size > 0) void reload(given)
    },
    end() {
      load = newLoad(path)
      files.close()
    },
  }
}

interface Load {
  since: number
  files: Set<string>
  isOver: boolean
}

const newLoad = (path: string): Load => ({ since: Date.now(), files: new Set([path]), isOver: false })

async function outcomeOf(reload: () => Promise<void>): Promise<{ code: string; message: string } | undefined> {
  try {
    await reload()
    return undefined
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { code: error instanceof PawlError ? error.code : 'internal_error', message }
  }
}

/** As a person would name it: from where they are. */
const nameOf = (path: string): string => relative(process.cwd(), path)

const stillLoads = (module: string): string => `${module} has been loading for ${SLOW_MS / 1_000} s; the code before it keeps serving`
