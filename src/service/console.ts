// The console: a page for people, made of files that the build puts next to this module. Its files need no authorization; its data does.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ServiceError } from './errors.ts'

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}
/** Only the console's own files run, and they talk only to this server. Nobody can show the page inside another one. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The files of the console, by their path below it. Compressed ones are sent to browsers that accept them. */
export interface ConsoleFiles {
  /** The page itself has the path ''. What it shows is in the part of the address that browsers do not send. */
  answer(path: string, request: Request): Response
}

/** @throws ServiceError `no_console` if this copy of pawl has none. */
export function consoleFiles(): ConsoleFiles {
  // Only now: in a bundle, this module may have no place of its own.
  const folder = join(dirname(fileURLToPath(import.meta.url)), '..', 'console')
  const files = new Map(namesIn(folder).map((name) => [name, readFileSync(join(folder, name))]))
  if (!files.has('index.html'))
    throw new ServiceError(
      'no_console',
      500,
      'The console is missing from this copy of pawl. Build it with `npm run build`, and leave pawl out of the bundle of your backend.',
    )
  return {
    answer(path, request) {
      const name = path === '' ? 'index.html' : path
      const file = files.get(name)
      if (!file || name.startsWith('.')) return new Response('There is no such file in the console.', { status: 404 })
      const acceptsBrotli = /\bbr\b/.test(request.headers.get('accept-encoding') ?? '')
      const packed = acceptsBrotli ? files.get(`${name}.br`) : undefined
      const headers = {
        'content-type': TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream',
        // The names of all other files change with their contents.
        'cache-control': name === 'index.html' ? 'no-cache' : 'public, max-age=31536000, immutable',
        'content-security-policy': POLICY,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        vary: 'accept-encoding',
        ...(packed && { 'content-encoding': 'br' }),
      }
      return new Response(request.method === 'HEAD' ? null : new Uint8Array(packed ?? file), { headers })
    },
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() ? [relative(folder, join(entry.parentPath, entry.name)).replaceAll('\\', '/')] : [],
    )
  } catch {
    return []
  }
}
