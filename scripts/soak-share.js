// Prints the commit's share of the soak: some of the test files that `npm run test:soak` enlarges, others for each commit.
import { readdir, readFile } from 'node:fs/promises'
import { commitSeed } from './commit-seed.js'

const FILES = 4
const ROOT = new URL('../', import.meta.url)

const files = (await readdir(new URL('test/', ROOT), { recursive: true }))
  // A test may have installed packages beneath, which have tests of their own.
  .filter((path) => path.endsWith('.test.ts') && !path.includes('node_modules'))
  .map((path) => `test/${path}`)
const sized = await Promise.all(
  files.map(async (path) => (/\b(size|variants)\(/.test(await readFile(new URL(path, ROOT), 'utf8')) ? [path] : [])),
)
const all = sized.flat().toSorted()
const first = commitSeed() ?? 0
/** Far apart, so that a share does not have only files of one subject. */
const apart = Math.ceil(all.length / FILES)
console.log(Array.from({ length: FILES }, (_, index) => all[(first + index * apart) % all.length]).join(' '))
