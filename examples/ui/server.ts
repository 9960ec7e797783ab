// The server of the chat page: the page itself, and pawl's web handler beside it.
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { Pawl } from 'pawl/client'
import { type Authorize, createHandler, nodeListener } from 'pawl/service'

const HTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>pawl</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css">
<div id="root"></div>
<script type="module" src="/page.js"></script>`

/** What models, tools and users write is text on this page; should it ever become HTML, it still cannot run or load anything. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"

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
  const files: Record<string, [type: string, text: string]> = {
    '/': ['text/html', HTML],
    '/page.js': ['text/javascript', page.outputFiles[0]?.text ?? ''],
    '/page.css': ['text/css', await readFile(new URL('page.css', import.meta.url), 'utf8')],
  }
  const answer = async (request: Request): Promise<Response> => {
    const file = files[new URL(request.url).pathname]
    if (!file) return handler(request)
    return new Response(file[1], { headers: { 'content-type': `${file[0]}; charset=utf-8`, 'content-security-policy': POLICY } })
  }
  return createServer(nodeListener(answer))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // Everyone may do everything: identify your users here.
  const server = await chatServer(await Pawl.connect(), () => ({ identity: 'guest', scopes: ['read', 'send', 'approve', 'operate'] }))
  server.listen(3000, '127.0.0.1', () => console.log('http://127.0.0.1:3000'))
}
