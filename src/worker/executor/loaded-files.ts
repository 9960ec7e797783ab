// Which files of the user's this process loads: what `pawl dev` watches. Told by hooks of Node's module loader, which see what every
// other loader (tsx) makes of an import. (Node's own reports to `node --watch` leave out what a CommonJS module re-exports, and are
// asked for by an environment variable, which every process that a tool starts would inherit.)
import nodeModule, { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads'

type Load = <T>(url: string, context: object, nextLoad: (url: string, context: object) => T) => T

/** Newer Nodes run hooks in the thread that imports. */
const { registerHooks } = nodeModule as { registerHooks?: (hooks: { load: Load }) => void }

const LOOK_EVERY_MS = 1_000
/** Where pawl's own code is. */
const PAWL = fileURLToPath(new URL('../..', import.meta.url))

let tell: (url: string) => void = () => undefined

/** Module hook. */
export const load: Load = (url, context, nextLoad) => {
  tell(url)
  return nextLoad(url, context)
}

/** Called in the hooks' own thread, which loads this file again. */
export function initialize(port: MessagePort): void {
  tell = (url) => port.postMessage(url)
}

/** Tells of each file once, from now on; what it answers with tells of all that are known by then. */
export function reportLoadedFiles(onFile: (path: string) => void): () => void {
  const told = new Set<string>()
  const note = (urlOrPath: string): void => {
    const path = ownFile(urlOrPath)
    if (path === undefined || told.has(path)) return
    told.add(path)
    onFile(path)
  }
  const drain = startHooks(note)
  const { cache } = createRequire(import.meta.url)
  const flush = (): void => {
    drain()
    // What a CommonJS module requires passes no hooks in older Nodes.
    for (const path of Object.keys(cache)) note(path)
  }
  setInterval(flush, LOOK_EVERY_MS).unref()
  return flush
}

/** Starts the hooks; what it answers with reads what they have told and no event has brought yet. */
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

/** The path of a file that is the user's: neither a package's nor pawl's. */
function ownFile(urlOrPath: string): string | undefined {
  const isUrl = /^[a-z]{2,}:/.test(urlOrPath)
  if (isUrl && !urlOrPath.startsWith('file:')) return undefined
  // tsx adds queries to the URLs of some files, and escapes them.
  const [path = ''] = (isUrl ? fileURLToPath(urlOrPath) : urlOrPath).split('?')
  return /[\\/]node_modules[\\/]/.test(path) || path.startsWith(PAWL) ? undefined : path
}

/** If the error says that a file is missing which the user's code imports: the folder where it would be. */
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
