// Prints today's share of the soak: one of the test files that `npm run test:soak` enlarges, a different one each day.
import { readdir, readFile } from 'node:fs/promises'

const DAY_MS = 86_400_000
const ROOT = new URL('../', import.meta.url)

const files = (await readdir(new URL('test/', ROOT), { recursive: true }))
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => `test/${path}`)
const sized = await Promise.all(
  files.map(async (path) => (/\b(size|variants)\(/.test(await readFile(new URL(path, ROOT), 'utf8')) ? [path] : [])),
)
const all = sized.flat().toSorted()
console.log(all[Math.floor(Date.now() / DAY_MS) % all.length])
