// Prints the test files of today's share of the soak: one of those whose size `npm run test:soak` raises, another one each day.
import { readdir, readFile } from 'node:fs/promises'

const DAY_MS = 86_400_000
const ROOT = new URL('../', import.meta.url)

const files = (await readdir(new URL('test/', ROOT), { recursive: true }))
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => `test/${path}`)
const sized = await Promise.all(
  files.map(async (path) => ((await readFile(new URL(path, ROOT), 'utf8')).includes("support/sizes.ts'") ? [path] : [])),
)
const all = sized.flat().toSorted()
console.log(all[Math.floor(Date.now() / DAY_MS) % all.length])
