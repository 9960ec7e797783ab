// Prints today's share of the soak: some of the test files that `npm run test:soak` enlarges, different ones each day.
import { readdir, readFile } from 'node:fs/promises'

const DAY_MS = 86_400_000
/** Files a day: each file has its turn every two weeks. */
const FILES = 4
const ROOT = new URL('../', import.meta.url)

const files = (await readdir(new URL('test/', ROOT), { recursive: true }))
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => `test/${path}`)
const sized = await Promise.all(
  files.map(async (path) => (/\b(size|variants)\(/.test(await readFile(new URL(path, ROOT), 'utf8')) ? [path] : [])),
)
const all = sized.flat().toSorted()
const day = Math.floor(Date.now() / DAY_MS)
/** Far apart, so that a day does not have only files of one subject. */
const apart = Math.ceil(all.length / FILES)
console.log(Array.from({ length: FILES }, (_, index) => all[(day + index * apart) % all.length]).join(' '))
