// The name of an exported type belongs to one type: a reader who finds it in an import or in a search need not ask which one is meant.
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Made from the types of the other files. */
const GENERATED = 'src/service/answer-schemas.ts'
const DECLARATION = /^(export )?(?:declare )?(?:interface|type|class|abstract class) (\w+)/gm

/** `name: files` for each exported type whose name is declared in another file, too. */
function namesOfSeveral(files: ReadonlyMap<string, string>): string[] {
  const places = new Map<string, { path: string; isExported: boolean }[]>()
  for (const [path, code] of files) {
    for (const [, isExported, name = ''] of code.matchAll(DECLARATION)) {
      places.set(name, [...(places.get(name) ?? []), { path, isExported: isExported !== undefined }])
    }
  }
  return [...places].flatMap(([name, declared]) =>
    declared.some(({ isExported }) => isExported) && new Set(declared.map(({ path }) => path)).size > 1
      ? [`${name}: ${declared.map(({ path }) => path).join(', ')}`]
      : [],
  )
}

it('the search for repeated type names finds one that another file declares, exported or not', () => {
  const files = new Map([
    ['a.ts', 'export interface Call {}\ninterface Own {}\nexport class Refused {}\n'],
    ['b.ts', 'type Call = string\ninterface Own {}\nimport { Refused } from "./a.ts"\n'],
  ])
  expect(namesOfSeveral(files)).toEqual(['Call: a.ts, b.ts'])
})

it('no two exported types share a name', async () => {
  const paths = (await readdir(`${ROOT}/src`, { recursive: true }))
    .map((path) => `src/${path}`)
    .filter((path) => path.endsWith('.ts') && path !== GENERATED)
  const codes = await Promise.all(paths.map(async (path) => [path, await readFile(`${ROOT}/${path}`, 'utf8')] as const))
  expect(codes.length).toBeGreaterThan(200)
  expect(namesOfSeveral(new Map(codes))).toEqual([])
})
