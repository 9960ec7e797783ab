// Part of the build: the console, as static files. Takes some seconds, so it does nothing while its sources are those of the last build.
import { createHash } from 'node:crypto'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { brotliCompressSync } from 'node:zlib'
import openapi, { astToString } from 'openapi-typescript'
import { build } from 'vite'

const DIGEST = '.digest'

/** `root`: the package; `made`: its compiled source; the files go to `made/console`. `before`: those of an earlier build. */
export async function buildConsole({ root, made, before }) {
  const to = join(made, 'console')
  const { documentOf } = await import(pathToFileURL(join(made, 'service/openapi.js')).href)
  const { ROUTES } = await import(pathToFileURL(join(made, 'service/handler.js')).href)
  const document = documentOf({ routes: ROUTES, basePath: '' })
  await writeTypes(document, join(root, 'console/src/api/openapi.d.ts'))
  const digest = digestOf([join(root, 'console'), join(root, 'src/session'), join(root, 'package-lock.json')], root)
  if (existsSync(join(before, DIGEST)) && readFileSync(join(before, DIGEST), 'utf8') === digest) {
    cpSync(before, to, { recursive: true })
    return
  }
  await build({ configFile: join(root, 'console/vite.config.ts'), logLevel: 'warn', build: { outDir: to } })
  for (const name of readdirSync(to, { recursive: true }).filter((path) => /\.(js|css|html)$/.test(path)))
    writeFileSync(join(to, `${name}.br`), brotliCompressSync(readFileSync(join(to, name))))
  writeFileSync(join(to, DIGEST), digest)
}

/** The types of the HTTP interface, made from its OpenAPI document. */
async function writeTypes(document, to) {
  const text = `// Made by scripts/console.js from the OpenAPI document: do not edit.\n${astToString(await openapi(document))}`
  if (existsSync(to) && readFileSync(to, 'utf8') === text) return
  rmSync(to, { force: true })
  writeFileSync(to, text)
}

function digestOf(paths, root) {
  const hash = createHash('sha256')
  for (const path of paths.flatMap(filesIn)) hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}

function filesIn(path) {
  if (!existsSync(path)) return []
  if (/\.[a-z]+$/.test(path)) return [path]
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}
