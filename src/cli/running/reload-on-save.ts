// Reloads a worker's module when it or a file that it imports is saved. If the new code cannot be loaded, the previous code stays in use.
import { setTimeout as sleep } from 'node:timers/promises'
import { relative, resolve } from 'node:path'
import { PawlError } from '../../session/errors.ts'
import type { Supervisor } from '../../worker/options.ts'
import type { Announcer } from './announce.ts'
import { type SavedFile, watchFiles } from './file-watch.ts'

/** After this time, a line says that the module is still loading. */
const SLOW_MS = 10_000

export interface ReloadOnSave {
  /** An executor has loaded this file, or the file is missing. */
  onFile(path: string): void
  /** Starts reloading, including for files saved while the workers started. */
  begin(supervisor: Pick<Supervisor, 'reload'>): void
  end(): void
}

export function reloadOnSave(given: string, announcer: Announcer): ReloadOnSave {
  const path = resolve(given)
  const module = nameOf(path)
  let supervisor: Pick<Supervisor, 'reload'> | undefined
  /** The newest load of the module: its files and its start. */
  let load = newLoad(path)
  /** Saved files that are not loaded yet. */
  let saved = new Set<string>()
  let hasFailed = false
  const files = watchFiles(onSaved)
  files.add(path, load.since)

  function onSaved(written: SavedFile[]): void {
    // An unchanged file needs no reload, unless the last one failed: the cause may have been something else.
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
    // A later save has begun another reload, or the worker is stopping.
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

/** The path relative to the working directory. */
const nameOf = (path: string): string => relative(process.cwd(), path)

const stillLoads = (module: string): string => `${module} has been loading for ${SLOW_MS / 1_000} s; the previous code stays in use`
