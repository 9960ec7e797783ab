// Tells when files of a set are saved. Events of the file system only hurry a look at the files, and the look decides: so it makes no
// difference how an editor saves (in place, by renaming, by deleting first), whether a folder is replaced, or whether there are events at
// all (there are none on network drives and some containers' mounts).
import { createHash } from 'node:crypto'
import { type FSWatcher, readFileSync, type Stats, statSync, watch } from 'node:fs'
import { dirname } from 'node:path'

/** A save may be several writes: it is told when there was none for as long. */
const QUIET_MS = 100
/** How soon a look follows an event. */
const SOON_MS = 10
/** Between looks that no event asked for. */
const SWEEP_MS = 1_000

/** A file that was saved. */
export interface SavedFile {
  path: string
  /** Whether its content is another one than before. */
  isNew: boolean
}

/** A watch over a set of files. */
export interface FileWatch {
  /** Adds a file that was loaded after `since`, or the folder where one is missing: saved since then, it is told of already. */
  add(path: string, since: number): void
  /** Forgets all others. */
  keepOnly(paths: ReadonlySet<string>): void
  close(): void
}

interface Seen {
  /** Changes with each write. */
  stamp: string
  digest: string
}

/** Watches; `onSaved` is told of all files that were saved together. */
export function watchFiles(onSaved: (files: SavedFile[]) => void): FileWatch {
  const files = new Map<string, Seen>()
  const folders = new Map<string, FSWatcher>()
  /** What files contained before the saves that are not told yet. */
  const unsaid = new Map<string, string>()
  let timer: NodeJS.Timeout | undefined
  const sweep = setInterval(() => lookIn(0), SWEEP_MS)
  sweep.unref()

  /** What is put off is not hurried: it waits for quiet. */
  function lookIn(ms: number): void {
    timer ??= setTimeout(look, ms)
  }

  function look(): void {
    timer = undefined
    watchFolders()
    const written = [...files].filter(([path, { stamp }]) => stampOf(path) !== stamp)
    for (const [path, { digest }] of written) {
      if (!unsaid.has(path)) unsaid.set(path, digest)
      files.set(path, seen(path))
    }
    if (written.length > 0) lookIn(QUIET_MS)
    else if (unsaid.size > 0) tell()
  }

  function tell(): void {
    const saved = [...unsaid].map(([path, before]) => ({ path, isNew: files.get(path)?.digest !== before }))
    unsaid.clear()
    onSaved(saved)
  }

  /** One watcher a folder; a file's own would be lost with the file. One that cannot be had is tried again by the next look. */
  function watchFolders(): void {
    const wanted = new Set([...files.keys()].map(dirname))
    for (const [folder, watcher] of folders) if (!wanted.has(folder)) forget(folder, watcher)
    for (const folder of wanted) if (!folders.has(folder)) watchFolder(folder)
  }

  function watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, (kind) => {
        // It may be the folder itself that has gone: its successor wants another watcher.
        if (kind === 'rename') forget(folder, watcher)
        lookIn(SOON_MS)
      })
      watcher.on('error', () => forget(folder, watcher))
      folders.set(folder, watcher)
    } catch {
      // The sweep does without.
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
      const { mtimeMs = 0 } = statOf(path) ?? {}
      if (mtimeMs <= since || mtimeMs > Date.now()) return
      unsaid.set(path, 'unknown')
      lookIn(QUIET_MS)
    },
    keepOnly(paths) {
      for (const path of files.keys()) {
        if (paths.has(path)) continue
        files.delete(path)
        unsaid.delete(path)
      }
    },
    close() {
      clearInterval(sweep)
      clearTimeout(timer)
      for (const [folder, watcher] of folders) forget(folder, watcher)
    },
  }
}

function seen(path: string): Seen {
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
