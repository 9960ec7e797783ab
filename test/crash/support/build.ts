// The fixtures as a user's compiled project: plain modules in a folder of their own that depends on pawl. The processes that are started
// and killed all the time compile nothing.
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
/** The packages that fixtures import, and where they are. */
const BESIDE = {
  zod: 'node_modules',
  '@modelcontextprotocol': 'node_modules',
  ai: 'test/ai-sdk-7/node_modules',
  '@ai-sdk': 'test/ai-sdk-7/node_modules',
}
const SCRIPTS = [
  'agents',
  'faulty-mcp-agents',
  'faulty-mcp-server',
  'held-start',
  'mcp-agents',
  'mcp-server',
  'payers',
  'run-worker',
  'supervise',
  'tree',
] as const

/** Compiled modules, by the names of their files. */
export interface Compiled<Name extends string = string> {
  path(name: Name): string
  remove(): Promise<void>
}

/** The compiled fixtures. */
export type Fixtures = Compiled<(typeof SCRIPTS)[number]>

/** Compiles the fixtures into a temporary project. */
export function buildFixtures(): Promise<Fixtures> {
  return compile(SCRIPTS.map((script) => `test/crash/fixtures/${script}.ts`))
}

/** Compiles modules, by their paths from the repository's root, into a temporary project. */
export async function compile(modules: readonly string[]): Promise<Compiled> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-crash-'))
  await mkdir(join(folder, 'node_modules'))
  await symlink(ROOT, join(folder, 'node_modules/pawl'))
  for (const [beside, from] of Object.entries(BESIDE)) await symlink(join(ROOT, from, beside), join(folder, 'node_modules', beside))
  await build({
    entryPoints: modules.map((module) => join(ROOT, module)),
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
  })
  return {
    path: (name) => join(folder, `${name}.mjs`),
    remove: () => rm(folder, { recursive: true }),
  }
}
