// The tools of published MCP servers, with a SIGKILL of an executor at boundaries of their calls, which the seed draws; in the soak, at every
// boundary.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type CrashWorld, crashTest, startStack } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { seed, size } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'
import { kindOf, kindsOf, someBoundaries } from './support/some-boundaries.ts'

const SERVERS = fileURLToPath(new URL('../../node_modules/@modelcontextprotocol', import.meta.url))
const KINDS = kindsOf('tool')

let compiled: Compiled
beforeAll(async () => {
  compiled = await compile(['test/crash/fixtures/published-mcp.ts'])
})
afterAll(() => compiled?.remove())

/** A folder, and the texts of its files. */
function folderWorld(): CrashWorld {
  let folder = ''
  const files = async () =>
    Promise.all((await readdir(folder)).toSorted().map(async (name) => [name, await readFile(join(folder, name), 'utf8')]))
  return {
    async start() {
      folder = await mkdtemp(join(tmpdir(), 'pawl-published-'))
      return { FILES: folder, SERVERS }
    },
    async reset() {
      for (const name of await readdir(folder)) await rm(join(folder, name))
    },
    snapshot: files,
    effects: async () => [],
    stop: () => rm(folder, { recursive: true }),
  }
}

it(`calls of published MCP servers end as they would without kills, wherever their executor is killed (seed ${seed}, again with PAWL_SEED)`, async () => {
  const result = await crashTest({
    module: compiled.path('published-mcp'),
    script: ['Write to Ann.'],
    world: folderWorld(),
    stack: await startStack(),
    random: false,
    log: () => undefined,
    ...size({ only: someBoundaries(seed, KINDS) }, {}),
  })
  // A repeated `create_entities` answers that it has created nothing, and a verified call has the result of its `verify`.
  const differences = result.boundaries.flatMap((one) => one.differences.filter(({ where }) => where !== 'transcript'))
  expect({ differences, problems: result.problems }, result.table).toEqual({ differences: [], problems: [] })
  expect(result.baseline.world).toEqual([
    ['memory.jsonl', JSON.stringify({ type: 'entity', name: 'Ann', entityType: 'person', observations: ['wrote'] })],
    ['sent.txt', 'Dear Ann'],
  ])
  expect(result.boundaries.map(({ boundary }) => kindOf(boundary))).toEqual(expect.arrayContaining(KINDS))
}, 600_000)
