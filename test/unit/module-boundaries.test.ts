// The module boundaries of the source tree: the lint rules refuse imports across them.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DIRECTION = 'eslint(no-restricted-imports)'

/** Files with an import that they must not have. */
const VIOLATIONS: Record<string, string> = {
  'src/session/uses-agent.ts': "export { part } from '../agent/part.ts'",
  'src/session/names-agent.ts': "export type { Part } from '../agent/part.ts'",
  'src/session/uses-node.ts': "export { readFileSync } from 'node:fs'",
  'src/session/uses-temporal.ts': "export { sleep } from '@temporalio/workflow'",
  'src/agent/uses-store.ts': "export { part } from '../store/part.ts'",
  'src/agent/deep/uses-store.ts': "export { part } from '../../store/part.ts'",
  'src/models/uses-activities.ts': "export { part } from '../activities/part.ts'",
  'src/store/uses-agent.ts': "export { part } from '../agent/part.ts'",
  'src/connect/uses-worker.ts': "export { part } from '../worker/part.ts'",
  'src/workflows/uses-activities.ts': "export { part } from '../activities/part.ts'",
  'src/workflows/uses-agent.ts': "export { part } from '../agent/part.ts'",
  'src/workflows/names-store.ts': "export type { Part } from '../store/part.ts'",
  'src/workflows/uses-zod.ts': "export { z } from 'zod'",
  'src/workflows/names-activities.ts': "export type { Part } from '../activities/part.ts'",
  'src/calls/uses-jobs.ts': "export { part } from '../jobs/part.ts'",
  'src/calls/names-activities.ts': "export type { Part } from '../activities/part.ts'",
  'src/calls/uses-node.ts': "export { readFileSync } from 'node:fs'",
  'src/jobs/names-activities.ts': "export type { Part } from '../activities/part.ts'",
  'src/activities/uses-jobs.ts': "export { part } from '../jobs/part.ts'",
  'src/activities/uses-worker.ts': "export { part } from '../worker/part.ts'",
  'src/activities/uses-workflows.ts': "export { part } from '../workflows/part.ts'",
  'src/activities/uses-models.ts': "export { part } from '../models/part.ts'",
  'src/jobs/uses-activities.ts': "export { part } from '../activities/part.ts'",
  'src/jobs/uses-store.ts': "export { part } from '../store/part.ts'",
  'src/jobs/uses-worker.ts': "export { part } from '../worker/part.ts'",
  'src/jobs/uses-sdk.ts': "export { Context } from '@temporalio/activity'",
  'src/jobs/names-sdk.ts': "export type { Payload } from '@temporalio/common'",
  'src/jobs/uses-postgres.ts': "export { default } from 'pg'",
  'src/worker/uses-sdk.ts': "export { Worker } from '@temporalio/worker'",
  'src/worker/uses-postgres.ts': "export { default } from 'pg'",
  'src/worker/parent/uses-agent.ts': "export { part } from '../../agent/part.ts'",
  'src/worker/parent/uses-orchestrator.ts': "export { part } from '../orchestrator/part.ts'",
  'src/worker/parent/names-executor.ts': "export type { Part } from '../executor/part.ts'",
  'src/worker/parent/uses-one-process.ts': "export { part } from '../one-process/part.ts'",
  'src/worker/parent/uses-sdk.ts': "export { Worker } from '@temporalio/worker'",
  'src/worker/parent/uses-package.ts': "export { pino } from 'pino'",
  'src/worker/parent/uses-part-of-package.ts': "export { z } from 'zod/v4'",
  'src/worker/parent/later-uses-package.ts': "export const later = () => import('pino')",
  'src/worker/orchestrator/uses-executor.ts': "export { part } from '../executor/part.ts'",
  'src/worker/orchestrator/uses-parent.ts': "export { part } from '../parent/part.ts'",
  'src/worker/orchestrator/uses-workflows.ts': "export { part } from '../../workflows/part.ts'",
  'src/worker/executor/uses-orchestrator.ts': "export { part } from '../orchestrator/part.ts'",
  'src/worker/executor/uses-activities.ts': "export { part } from '../../activities/part.ts'",
  'src/worker/executor/uses-store.ts': "export { part } from '../../store/part.ts'",
  'src/worker/executor/names-sdk.ts': "export type { Payload } from '@temporalio/common'",
  'src/worker/executor/uses-postgres.ts': "export { default } from 'pg'",
  'src/worker/preflight/uses-executor.ts': "export { part } from '../executor/part.ts'",
  'src/worker/preflight/uses-client.ts': "export { part } from '../../client/part.ts'",
  'src/worker/one-process/uses-parent.ts': "export { part } from '../parent/part.ts'",
  'src/worker/uses-client.ts': "export { part } from '../client/part.ts'",
  'src/worker/uses-workflows.ts': "export { part } from '../workflows/part.ts'",
  'src/client/uses-worker.ts': "export { part } from '../worker/part.ts'",
  'src/client/later-uses-worker.ts': "export const later = () => import('../worker/part.ts')",
  'src/client/uses-agent.ts': "export { part } from '../agent/part.ts'",
  'src/client/uses-sdk.ts': "export { Worker } from '@temporalio/worker'",
  'src/service/uses-worker.ts': "export { part } from '../worker/part.ts'",
  'src/local/uses-store.ts': "export { part } from '../store/part.ts'",
  'src/local/deep/uses-store.ts': "export { part } from '../../store/part.ts'",
  'src/testing/uses-store.ts': "export { part } from '../store/part.ts'",
  'src/cli/uses-activities.ts': "export { part } from '../activities/part.ts'",
  'src/cli/uses-store.ts': "export { part } from '../store/part.ts'",
  'src/client/names-worker.ts': "export type { Part } from '../worker/part.ts'",
  'src/client/uses-itself.ts': "export { defineAgent } from 'pawl'",
  'src/index.ts': "export { part } from './worker/part.ts'",
  'examples/reaches-in.ts': "export { part } from '../src/agent/part.ts'",
}

/** Types that are named without an import: the rules on imports would not see them. */
const ANNOTATIONS: Record<string, string> = {
  'src/client/annotates-with-worker.ts': "export type Part = import('../worker/part.ts').Part",
  'src/session/annotates-with-store.ts': "export const name = (part: import('../store/part.ts').Part) => `${part}`",
  'src/agent/annotates-with-value.ts': "export type Store = typeof import('../store/part.ts')",
}

/** Files whose imports are allowed. */
const FINE: Record<string, string> = {
  'src/agent/uses-session.ts': "export { part } from '../session/part.ts'",
  'src/agent/deep/uses-session.ts': "export { part } from '../../session/part.ts'",
  'src/store/names-agent.ts': "export type { Part } from '../agent/part.ts'",
  'src/workflows/names-calls.ts': "import type { Part } from '../calls/part.ts'\nexport const part: Part = 1",
  'src/jobs/uses-models.ts': "export { part } from '../models/part.ts'",
  'src/jobs/uses-calls.ts': "export { part } from '../calls/part.ts'",
  'src/activities/uses-calls.ts': "export { part } from '../calls/part.ts'",
  'src/worker/names-sdk.ts': "export type { Worker } from '@temporalio/worker'",
  'src/worker/parent/uses-node.ts': "export { fork } from 'node:child_process'\nexport { rm } from 'node:fs/promises'",
  'src/worker/parent/uses-what-is-shared.ts': "export { part } from '../part.ts'\nexport { part as other } from './part.ts'",
  'src/worker/parent/names-packages.ts': "export type { Pool } from 'pg'\nexport type { Part } from '../../agent/part.ts'",
  'src/worker/orchestrator/uses-activities.ts': "export { part } from '../../activities/part.ts'",
  'src/worker/orchestrator/uses-sdk.ts': "export { Worker } from '@temporalio/worker'",
  'src/worker/executor/uses-jobs.ts': "export { part } from '../../jobs/part.ts'",
  'src/worker/one-process/uses-both.ts':
    "export { part } from '../orchestrator/part.ts'\nexport { part as other } from '../executor/part.ts'",
  'src/worker/preflight/uses-others.ts':
    "export { part } from '../orchestrator/part.ts'\nexport { part as other } from '../parent/part.ts'\nexport { part as third } from '../../store/part.ts'",
  'src/client/uses-store.ts': "export { part } from '../store/part.ts'",
  'src/client/names-agent.ts': "export type { Part } from '../agent/part.ts'",
  'src/cli/uses-local.ts': "export { part } from '../local/part.ts'",
  'src/testing/uses-client.ts': "export { part } from '../client/part.ts'",
}

let copy: string
let complaints: Map<string, string[]>

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'pawl-boundaries-'))
  await cp(join(ROOT, 'oxlint.config.js'), join(copy, 'oxlint.config.js'))
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  await put('package.json', '{"name":"boundaries","type":"module"}')
  await put(
    'tsconfig.json',
    '{"compilerOptions":{"module":"nodenext","noEmit":true,"allowImportingTsExtensions":true},"include":["src","examples"]}',
  )
  // The folders of the real source tree with one file each, so that all findings come from this test.
  for (const folder of ['', 'worker/']) {
    for (const entry of await readdir(join(ROOT, 'src', folder), { withFileTypes: true })) {
      if (entry.isDirectory()) await put(`src/${folder}${entry.name}/part.ts`, 'export const part = 1\nexport type Part = 1\n')
    }
  }
  for (const [path, code] of Object.entries({ ...VIOLATIONS, ...ANNOTATIONS, ...FINE })) await put(path, `${code}\n`)
  await put('src/agent/chicken.ts', "import { egg } from './egg.ts'\nexport const chicken = () => egg\n")
  await put('src/agent/egg.ts', "import { chicken } from './chicken.ts'\nexport const egg = () => chicken\n")
  await put('src/agent/hen.ts', "import type { Chick } from './chick.ts'\nexport interface Hen {\n  chick: Chick\n}\n")
  await put('src/agent/chick.ts', "import type { Hen } from './hen.ts'\nexport interface Chick {\n  hen: Hen\n}\n")
  await put('src/agent/cock.ts', "export type { Nest } from './nest.ts'\nexport type Cock = 1\n")
  await put('src/agent/nest.ts', "export type { Cock } from './cock.ts'\nexport type Nest = 1\n")
  await put('src/agent/careless.ts', 'const later = async () => 1\nexport const go = () => {\n  later()\n}\n')
  complaints = await lint()
})
afterAll(() => rm(copy, { recursive: true, force: true }))

async function put(path: string, code: string): Promise<void> {
  await mkdir(dirname(join(copy, path)), { recursive: true })
  await writeFile(join(copy, path), code)
}

/** The linter's findings on the source tree: the broken rules, by file. */
async function lint(): Promise<Map<string, string[]>> {
  const oxlint = join(ROOT, 'node_modules/.bin/oxlint')
  const output = await new Promise<string>((resolve) => {
    // It exits with 1 because it has findings.
    execFile(oxlint, ['-c', 'oxlint.config.js', '-f', 'json', 'src', 'examples'], { cwd: copy, maxBuffer: 1 << 24 }, (_error, stdout) =>
      resolve(stdout),
    )
  })
  const { diagnostics } = JSON.parse(output) as { diagnostics: { code: string; filename: string }[] }
  const found = new Map<string, string[]>()
  for (const { code, filename } of diagnostics) found.set(filename, [...(found.get(filename) ?? []), code])
  return found
}

describe('lint', () => {
  it.each(Object.entries(VIOLATIONS))('lint refuses %s: %s', (path) => {
    expect(complaints.get(path)).toContain(DIRECTION)
  })

  it.each(Object.entries(ANNOTATIONS))('lint refuses %s: %s', (path) => {
    expect(complaints.get(path)).toContain('typescript(consistent-type-imports)')
  })

  it.each(Object.entries(FINE))('lint accepts %s: %s', (path) => {
    expect(complaints.get(path) ?? []).toEqual([])
  })

  it.each(['chicken', 'hen', 'cock'])('lint refuses an import cycle, even one of types only (%s)', (one) => {
    expect(complaints.get(`src/agent/${one}.ts`)).toContain('import(no-cycle)')
  })

  it('lint refuses rules by which two folders may import each other', async () => {
    const rules = await readFile(join(ROOT, 'oxlint.config.js'), 'utf8')
    const mutual = join(copy, 'mutual.config.js')
    await writeFile(mutual, rules.replace('calls: { values: []', "calls: { values: ['jobs']"))
    await expect(import(pathToFileURL(mutual).href)).rejects.toThrow('src/calls and src/jobs may import each other')
  })

  it('lint refuses a promise that is not awaited', () => {
    expect(complaints.get('src/agent/careless.ts')).toContain('typescript(no-floating-promises)')
  })
})
