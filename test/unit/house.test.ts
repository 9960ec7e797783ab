// The import directions of the house, as rules that bite.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

let house: string
beforeAll(async () => {
  // A house of the same rooms with nothing in them, so that what is found was put there.
  house = await mkdtemp(join(tmpdir(), 'pawl-house-'))
  await cp(join(ROOT, 'oxlint.config.js'), join(house, 'oxlint.config.js'))
  await writeFile(join(house, 'package.json'), '{"type":"module"}')
  await symlink(join(ROOT, 'node_modules'), join(house, 'node_modules'))
  for (const room of await readdir(join(ROOT, 'src'), { withFileTypes: true })) {
    if (room.isDirectory()) await put(`src/${room.name}/part.ts`, 'export const part = 1\nexport type Part = 1\n')
  }
})
afterAll(() => rm(house, { recursive: true, force: true }))

async function put(path: string, code: string): Promise<void> {
  await mkdir(dirname(join(house, path)), { recursive: true })
  await writeFile(join(house, path), code)
}

/** What lint says of a file, rule by rule; nothing when it is content. */
async function complaints(path: string, code: string): Promise<string[]> {
  await put(path, code)
  const args = ['-c', 'oxlint.config.js', '-f', 'json', '--no-ignore', ...(code.includes('async') ? [] : ['--type-aware=false'])]
  const output = await new Promise<string>((resolve) => {
    execFile(join(ROOT, 'node_modules/.bin/oxlint'), [...args.slice(0, 5), path], { cwd: house }, (_error, stdout) => resolve(stdout))
  })
  await rm(join(house, path))
  const { diagnostics } = JSON.parse(output) as { diagnostics: { code: string }[] }
  return diagnostics.map(({ code: rule }) => rule)
}
