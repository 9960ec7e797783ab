// The server of the chat page: the page itself, and pawl's web handler beside it.
import { createServer, type Server } from 'node:http'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { Pawl } from 'pawl/client'
import { type Authorize, createHandler, nodeListener } from 'pawl/service'

const HTML = '<!doctype html><meta charset="utf-8"><title>pawl</title><div id="root"></div><script type="module" src="/page.js"></script>'

/** For messages with files, which pawl limits to 20 MB. */
const MAX_BODY_BYTES = 21_000_000

/**
 * The server; `authorize` says whose sessions a request may see. It does not listen on a port yet. `alias`: packages that the page is built
 * with in place of others, such as another version of the AI SDK.
 */
export async function chatServer(pawl: Pawl, authorize: Authorize, alias: Record<string, string> = {}): Promise<Server> {
  const handler = createHandler({ pawl, authorize, basePath: '/api/pawl', maxBodyBytes: MAX_BODY_BYTES })
  const page = await build({
    entryPoints: [fileURLToPath(new URL('page.tsx', import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    alias,
    define: { 'process.env.NODE_ENV': '"development"' },
  })
  const script = page.outputFiles[0]?.text ?? ''
  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    if (pathname === '/') return new Response(HTML, { headers: { 'content-type': 'text/html' } })
    if (pathname === '/page.js') return new Response(script, { headers: { 'content-type': 'text/javascript' } })
    return handler(request)
  }
  return createServer(nodeListener(answer))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // Everyone may do everything: identify your users here.
  const server = await chatServer(await Pawl.connect(), () => ({ identity: 'guest', scopes: ['read', 'send', 'approve', 'operate'] }))
  server.listen(3000, '127.0.0.1', () => console.log('http://127.0.0.1:3000'))
}
