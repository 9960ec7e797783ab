// The stack of a thrown error, for the people who fix it: the frames of the user's own code first, and those of its causes.
import { readFileSync, statSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { LRUCache } from 'lru-cache'
import { cutText } from '../session/protocol/texts.ts'

/** Events keep stacks, and heartbeats carry the stacks of an activity's failed attempts. */
const MAX_BYTES = 3_000
const MAX_FRAMES = 15
const MAX_CAUSES = 3
const MAX_CAUSE_BYTES = 500

export interface ErrorStack {
  /**
   * Frames, one per line, as V8 writes them, and the error's causes with their frames. It does not repeat the error's class and message.
   */
  text: string
  /** Whether a frame is the user's own. */
  hasOwn: boolean
}

/** The stack of what was thrown; undefined if it has no causes and no frames outside pawl. Never throws. */
export function stackOf(thrown: unknown): ErrorStack | undefined {
  // Any value may be thrown, even one that throws when it is read.
  return readable(() => readStack(thrown))
}

/** Where an error was thrown: file, row and column of its first frame outside of Node; undefined without such a frame. Never throws. */
export function thrownAt(thrown: unknown): string | undefined {
  return readable(() => (thrown instanceof Error ? framesOf(thrown).find(({ place }) => place !== undefined)?.place : undefined))
}

function readStack(thrown: unknown): ErrorStack | undefined {
  if (!(thrown instanceof Error)) return undefined
  const frames = framesOf(thrown)
  const lines = linesOf(frames)
  let hasOwn = frames.some(({ of }) => of === 'user')
  let cause = causeOf(thrown)
  for (let depth = 0; depth < MAX_CAUSES && cause !== undefined && cause !== null; depth++) {
    const theirs = cause instanceof Error ? framesOf(cause) : []
    hasOwn ||= theirs.some(({ of }) => of === 'user')
    lines.push(`Caused by: ${cutText(titleOf(cause), MAX_CAUSE_BYTES)}`, ...linesOf(theirs))
    cause = causeOf(cause)
  }
  return lines.length === 0 ? undefined : { text: cutText(lines.join('\n'), MAX_BYTES), hasOwn }
}

/** Node reports a host with several addresses as an AggregateError. */
function causeOf(error: unknown): unknown {
  return readable(() => {
    const { cause, errors } = error as { cause?: unknown; errors?: unknown }
    return cause ?? (Array.isArray(errors) ? errors[0] : undefined)
  })
}

function titleOf(cause: unknown): string {
  const title = readable(() => {
    if (!(cause instanceof Error)) return String(cause)
    const { code } = cause as { code?: unknown }
    return `${cause.name}${typeof code === 'string' ? ` [${code}]` : ''}: ${cause.message}`
  })
  return title ?? 'an error that cannot be read'
}

/** A part of an error; undefined if it throws when it is read. The other parts may be readable. */
function readable<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}

interface Frame {
  line: string
  /** File, row and column. */
  place?: string
  of: 'user' | 'package' | 'node' | 'pawl'
}

/**
 * The user's frames, then those of packages. If there are none, Node's frames, which name the operation, unless pawl itself threw the
 * error.
 */
function linesOf(all: readonly Frame[]): string[] {
  // Below the outermost frame outside pawl, V8's own frames, such as those of Promise.all, belong to pawl.
  const outermost = all.findLastIndex(({ of, place }) => of !== 'pawl' && place !== undefined)
  const frames = outermost < 0 ? all : all.slice(0, outermost + 1)
  const from = (...of: Frame['of'][]): string[] => frames.flatMap((frame) => (of.includes(frame.of) ? frame.line : []))
  const own = [...from('user'), ...from('package')]
  return (own.length > 0 || frames[0]?.of === 'pawl' ? own : from('node')).slice(0, MAX_FRAMES)
}

function framesOf(error: Error): Frame[] {
  const [message, stack] = [readable(() => error.message), readable(() => error.stack) ?? readable(() => framesAlone(error))]
  if (typeof stack !== 'string') return []
  // The message comes first, and a line of it may look like a frame.
  const at = typeof message !== 'string' || message === '' ? -1 : stack.indexOf(message)
  const rest = at < 0 ? stack : stack.slice(at + String(message).length)
  return rest.split('\n').flatMap((line) => (/^\s+at /.test(line) ? frameOf(line.trim()) : []))
}

/** The stack without the message, which Node reads when it writes a stack, and which may throw. */
function framesAlone(error: Error): unknown {
  const { prepareStackTrace } = Error
  Error.prepareStackTrace = (_, frames: readonly { toString(): string }[]) => frames.map((frame) => `    at ${frame.toString()}`).join('\n')
  try {
    return error.stack
  } finally {
    Error.prepareStackTrace = prepareStackTrace
  }
}

/** A frame with a place: `at look (file:///app/tools.js:3:9)`, or without a name. */
const FRAME = /^at (?:(.+?) \(|async )?((?:file:\/\/)?(?:\/|[A-Za-z]:[\\/]).*?):(\d+):(\d+)\)?$/
const OF_NODE = /\(?node:[\w/.-]+:\d+:\d+\)?$/
const OF_PACKAGE = /[\\/]node_modules[\\/]/
/**
 * The folders with pawl's code: the compiled code, and the sources that Node names instead where source maps apply, for example for a
 * TypeScript module.
 */
const OF_PAWL = ['../../dist/', '../../src/'].map((folder) => fileURLToPath(new URL(folder, import.meta.url)))

function frameOf(line: string): Frame {
  const [, name, at = '', row, column] = FRAME.exec(line) ?? []
  if (at === '') return { line: indented(line), of: OF_NODE.test(line) ? 'node' : 'package' }
  const path = at.startsWith('file:') ? fileURLToPath(at) : at
  if (OF_PAWL.some((folder) => path.startsWith(folder))) return { line: indented(line), place: `${path}:${row}:${column}`, of: 'pawl' }
  const place = OF_PACKAGE.test(path) ? { path, row, column } : originOf(path, Number(row), Number(column))
  const where = `${place.path}:${place.row}:${place.column}`
  return {
    line: indented(name === undefined ? `at ${where}` : `at ${name} (${where})`),
    place: where,
    of: OF_PACKAGE.test(place.path) ? 'package' : 'user',
  }
}

const indented = (line: string): string => `    ${line}`

/** Maps are read when an error is thrown, and most programs have few files of their own. */
const maps = new LRUCache<string, { map: SourceMap | undefined }>({ max: 200 })
const MAX_FILE_BYTES = 30_000_000
const MAP_URL = '//# sourceMappingURL='

/** The place in the source that the file was compiled from, if it has a source map. Node applies maps itself with `--enable-source-maps`. */
function originOf(path: string, row: number, column: number): { path: string; row: number; column: number } {
  const origin = mapOf(path)?.findEntry(row - 1, column - 1)
  if (!origin || !('originalSource' in origin)) return { path, row, column }
  const { originalSource: source, originalLine, originalColumn } = origin
  return { path: source.startsWith('file:') ? fileURLToPath(source) : source, row: originalLine + 1, column: originalColumn + 1 }
}

function mapOf(path: string): SourceMap | undefined {
  const known = maps.get(path)
  if (known) return known.map
  const map = readMap(path)
  maps.set(path, { map })
  return map
}

function readMap(path: string): SourceMap | undefined {
  try {
    if (statSync(path).size > MAX_FILE_BYTES) return undefined
    const code = readFileSync(path, 'utf8')
    const at = code.lastIndexOf(MAP_URL)
    if (at < 0) return undefined
    const [url = ''] = code.slice(at + MAP_URL.length).split(/\s/, 1)
    const from = url.startsWith('data:') ? pathToFileURL(path) : new URL(url, pathToFileURL(path))
    const json = url.startsWith('data:') ? dataOf(url) : readFileSync(from, 'utf8')
    const payload = JSON.parse(json) as { sources: string[]; sourceRoot?: string }
    const base = new URL(payload.sourceRoot ? `${payload.sourceRoot.replace(/\/$/, '')}/` : '.', from)
    const sources = payload.sources.map((source) => new URL(source, base).href)
    return new SourceMap({ ...payload, sources } as unknown as ConstructorParameters<typeof SourceMap>[0])
  } catch {
    // The file or its map is gone or damaged: the frame names the compiled file.
    return undefined
  }
}

function dataOf(url: string): string {
  const comma = url.indexOf(',')
  return Buffer.from(decodeURIComponent(url.slice(comma + 1)), url.slice(0, comma).endsWith(';base64') ? 'base64' : 'utf8').toString('utf8')
}
