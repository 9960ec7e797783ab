// Detects when files of a set are saved. File system events only trigger a comparison of the files, which decides. So it does not matter
// how an editor saves (in place, by renaming, by deleting first), whether a folder is replaced, or whether there are events at all (network
// drives and some container mounts have none).
import { createHash } from 'node:crypto'
import { type FSWatcher, readFileSync, type Stats, statSync, watch } from 'node:fs'
import { dirname } from 'node:path'

/** A save may consist of several writes: it is reported after a pause of this length. */
const QUIET_MS = 100
/** The delay between an event and the comparison. */
const SOON_MS = 10
/** The interval of comparisons without events. */
const SWEEP_MS = 1_000

/** A file that was saved. */
export interface SavedFile {
  path: string
  /** Whether its content has changed. */
  isNew: boolean
}

/** A watch over a set of files. */
export interface FileWatch {
  /** Adds a file that was loaded after `since`, or the folder of a missing one. A save since then is reported. */
  add(path: string, since: number): void
  /** Removes all other files. */
  keepOnly(paths: ReadonlySet<string>): void
  close(): void
}

interface FileState {
  /** Changes with each write. */
  stamp: string
  digest: string
}

/** Starts watching; `onSaved` receives all files that were saved together. */
export function watchFiles(onSaved: (files: SavedFile[]) => void): FileWatch {
  const files = new Map<string, FileState>()
  const folders = new Map<string, FSWatcher>()
  /** Digests of files before saves that are not reported yet. */
  const unreported = new Map<string, string>()
  let timer: NodeJS.Timeout | undefined
  const sweep = setInterval(() => lookIn(0), SWEEP_MS)
  sweep.unref()

  /** A pending comparison keeps its time, so that it waits for the pause. */
  function lookIn(ms: number): void {
    timer ??= setTimeout(look, ms)
  }

  function look(): void {
    timer = undefined
    watchFolders()
    const written = [...files].filter(([path, { stamp }]) => stampOf(path) !== stamp)
    for (const [path, { digest }] of written) {
      if (!unreported.has(path)) unreported.set(path, digest)
      files.set(path, seen(path))
    }
    if (written.length > 0) lookIn(QUIET_MS)
    else if (unreported.size > 0) report()
  }

  function report(): void {
    const saved = [...unreported].map(([path, before]) => ({ path, isNew: files.get(path)?.digest !== before }))
    unreported.clear()
    onSaved(saved)
  }

  /** One watcher per folder, because a watcher on a file would be lost with the file. A failed watch is retried by the next comparison. */
  function watchFolders(): void {
    const wanted = new Set([...files.keys()].map(dirname))
    for (const [folder, watcher] of folders) if (!wanted.has(folder)) forget(folder, watcher)
    for (const folder of wanted) if (!folders.has(folder)) watchFolder(folder)
  }

  function watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, (kind) => {
        // The folder itself may have been replaced and need a new watcher.
        if (kind === 'rename') forget(folder, watcher)
        lookIn(SOON_MS)
      })
      watcher.on('error', () => forget(folder, watcher))
      folders.set(folder, watcher)
    } catch {
      // The comparisons at an interval do not need it.
    }
  }

  function forget(folder: string, watcher: FSWatcher): void {
    watcher.close()
    if (folders.get(folder) === watcher) folders.delete(folder)
  }

  return {
    add(path, since) {
      if (files.has(path)) return
      files.set(path, seen(path))
      watchFolders()
      // Whole milliseconds, as `Date.now()` returns: a file written within this one is neither from the future nor newer than `since`.
      const savedAt = Math.floor(statOf(path)?.mtimeMs ?? 0)
      if (savedAt <= since || savedAt > Date.now()) return
      unreported.set(path, 'unknown')
      lookIn(QUIET_MS)
    },
    keepOnly(paths) {
      for (const path of files.keys()) {
        if (paths.has(path)) continue
        files.delete(path)
        unreported.delete(path)
      }
    },
    close() {
      clearInterval(sweep)
      clearTimeout(timer)
      for (const [folder, watcher] of folders) forget(folder, watcher)
    },
  }
}

function seen(path: string): FileState {
  const stamp = stampOf(path)
  return { stamp, digest: digestOf(path) ?? stamp }
}

function stampOf(path: string): string {
  const stat = statOf(path)
  return stat ? `${stat.ino} ${stat.size} ${stat.mtimeMs}` : 'missing'
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

function digestOf(path: string): string | undefined {
  try {
    return createHash('sha256').update(readFileSync(path)).digest('base64')
  } catch {
    // A folder, or missing.
    return undefined
  }
}
