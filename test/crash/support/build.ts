// The fixtures as a user's compiled project: plain modules in a folder of their own that depends on pawl. Nothing is compiled
// by the processes that are started and killed all the time.
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const SCRIPTS = ['agents', 'payers', 'run-worker', 'supervise'] as const

/** The compiled fixtures. */
export interface Fixtures {
  path(script: (typeof SCRIPTS)[number]): string
  remove(): Promise<void>
}

/** Compiles the fixtures into a temporary project. */
export async function buildFixtures(): Promise<Fixtures> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-crash-'))
  await mkdir(join(folder, 'node_modules'))
  await symlink(ROOT, join(folder, 'node_modules/pawl'))
  await symlink(join(ROOT, 'node_modules/zod'), join(folder, 'node_modules/zod'))
  await build({
    entryPoints: SCRIPTS.map((script) => join(ROOT, `test/crash/fixtures/${script}.ts`)),
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
    path: (script) => join(folder, `${script}.mjs`),
    remove: () => rm(folder, { recursive: true }),
  }
}
