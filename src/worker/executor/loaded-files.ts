// Reports which of the user's files this process loads, for `pawl dev` to watch. It uses hooks of Node's module loader, which see how
// other loaders (tsx) resolve an import. (Node's own reports to `node --watch` leave out re-exports of CommonJS modules, and are enabled
// by an environment variable that every child process of a tool would inherit.)
import nodeModule, { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads'

type Load = <T>(url: string, context: object, nextLoad: (url: string, context: object) => T) => T

/** Newer Node versions run hooks in the importing thread. */
const { registerHooks } = nodeModule as { registerHooks?: (hooks: { load: Load }) => void }

const LOOK_EVERY_MS = 1_000
/** The folder of pawl's own code. */
const PAWL = fileURLToPath(new URL('../..', import.meta.url))

let tell: (url: string) => void = () => undefined

/** Module hook. */
export const load: Load = (url, context, nextLoad) => {
  tell(url)
  return nextLoad(url, context)
}

/** Called in the thread of the hooks, which loads this file again. */
export function initialize(port: MessagePort): void {
  tell = (url) => port.postMessage(url)
}

/** Reports each file once, from now on; the returned function reports all files known so far. */
export function reportLoadedFiles(onFile: (path: string) => void): () => void {
  const reported = new Set<string>()
  const note = (urlOrPath: string): void => {
    const path = ownFile(urlOrPath)
    if (path === undefined || reported.has(path)) return
    reported.add(path)
    onFile(path)
  }
  const drain = startHooks(note)
  const { cache } = createRequire(import.meta.url)
  const flush = (): void => {
    drain()
    // In older Node versions, hooks do not see what a CommonJS module requires.
    for (const path of Object.keys(cache)) note(path)
  }
  setInterval(flush, LOOK_EVERY_MS).unref()
  return flush
}

/** Starts the hooks; the returned function reads hook messages that no event has delivered yet. */
function startHooks(note: (url: string) => void): () => void {
  if (registerHooks) {
    tell = note
    registerHooks({ load })
    return () => undefined
  }
  const { port1, port2 } = new MessageChannel()
  nodeModule.register(import.meta.url, { data: port2, transferList: [port2] })
  port1.on('message', note)
  port1.unref()
  return () => {
    for (let next = receiveMessageOnPort(port1); next; next = receiveMessageOnPort(port1)) note(next.message as string)
  }
}

/** Returns the path if the file belongs to the user, not to a package or pawl. */
function ownFile(urlOrPath: string): string | undefined {
  const isUrl = /^[a-z]{2,}:/.test(urlOrPath)
  if (isUrl && !urlOrPath.startsWith('file:')) return undefined
  // tsx adds escaped queries to the URLs of some files.
  const [path = ''] = (isUrl ? fileURLToPath(urlOrPath) : urlOrPath).split('?')
  return /[\\/]node_modules[\\/]/.test(path) || path.startsWith(PAWL) ? undefined : path
}

/** Returns the folder of a user's file that the error reports as missing; undefined for any other error. */
export function folderOfMissing(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const { code, url, requireStack, message } = error as Error & { code?: string; url?: string; requireStack?: string[] }
  if (code === 'ERR_MODULE_NOT_FOUND' && url !== undefined) return folderOf(ownFile(url))
  const [, relative] = /^Cannot find module '(\.[^']*)'/.exec(message) ?? []
  const [from] = requireStack ?? []
  if (code === 'MODULE_NOT_FOUND' && relative !== undefined && from !== undefined)
    return folderOf(ownFile(resolve(dirname(from), relative)))
  return undefined
}

const folderOf = (path: string | undefined): string | undefined => (path === undefined ? undefined : dirname(path))
