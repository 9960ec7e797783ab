// No interface has a member that only its implementation mentions. We know of no tool that finds these.
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Files and interfaces of what others read or implement (backends, the AI SDK, Temporal, browsers): their members need no reader in pawl. */
const OF_OTHERS = [
  'src/store/rows.ts',
  'src/store/listed.ts',
  'src/store/sums.ts',
  'src/models/ai-sdk-types.ts',
  'src/client/types.ts: Priority',
  'src/ui/following.ts: ChatPage',
  'src/ui/following.ts: PageDocument',
]
const COMMENTS = /\/\*[^]*?\*\/|\/\/.*/g

/** `file: Interface.member` for each member that is mentioned at most once besides its declaration. */
function deadMembers(files: ReadonlyMap<string, string>): string[] {
  const named = new Map<string, number>()
  for (const code of files.values()) {
    for (const [word] of code.matchAll(/[A-Za-z_$][\w$]*/g)) named.set(word, (named.get(word) ?? 0) + 1)
  }
  return [...files].flatMap(([path, code]) =>
    [...code.matchAll(/interface (\w+)[^{]*\{([^]*?)\n\}/g)].flatMap(([, name, body = '']) =>
      [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??(?:<.*>)?[(:]/gm)].flatMap(([, member = '']) =>
        (named.get(member) ?? 0) <= 2 && ![path, `${path}: ${name}`].some((one) => OF_OTHERS.includes(one))
          ? [`${path}: ${name}.${member}`]
          : [],
      ),
    ),
  )
}

it('the search for dead members finds one that only its implementation names', () => {
  const log =
    'export interface Log {\n  read(): string\n  onRead(wake: () => void): void\n}\nconst log: Log = { read: () => "", onRead(wake) { wake() } }\n'
  expect(deadMembers(new Map([['log.ts', `${log}log.read()`]]))).toEqual(['log.ts: Log.onRead'])
})

it('no interface has a member that only its implementation names', async () => {
  const paths = (await readdir(`${ROOT}/src`, { recursive: true })).filter((path) => path.endsWith('.ts')).map((path) => `src/${path}`)
  const codes = await Promise.all(
    paths.map(async (path) => [path, (await readFile(`${ROOT}/${path}`, 'utf8')).replaceAll(COMMENTS, '')] as const),
  )
  expect(codes.length).toBeGreaterThan(200)
  expect(deadMembers(new Map(codes))).toEqual([])
})
