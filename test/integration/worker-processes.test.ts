// What each process of a worker loads: an executor neither SDK nor pool, the orchestrator no user code, and the parent only zod.
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, expect, it } from 'vitest'

const here = (path: string): URL => new URL(`./fixtures/processes/${path}`, import.meta.url)

const SILENT = { debug() {}, info() {}, warn() {}, error() {} }

/** The modules that each process has loaded, as paths below the package's root. */
let loaded: Record<'parent' | 'orchestrator' | 'executor', string[]>
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-loaded-'))
  const taskQueue = `loaded-${randomUUID()}`
  const parent = fork(fileURLToPath(here('supervise.mjs')), [], {
    execArgv: ['--import', here('record-modules.mjs').href],
    env: { ...process.env, LOADED_MODULES: folder, TASK_QUEUE: taskQueue },
  })
  const [{ executors, orchestrator }] = (await once(parent, 'message')) as [{ executors: number[]; orchestrator: number }]
  const pawl = await Pawl.connect({ taskQueue })
  try {
    const run = await pawl.session(randomUUID(), { agent: 'noter' }).send('hello')
    expect((await run.result()).text).toBe('done')
  } finally {
    await pawl.close()
    parent.send('stop')
    await once(parent, 'exit')
  }
  loaded = {
    parent: await modulesOf(parent.pid),
    orchestrator: await modulesOf(orchestrator),
    executor: await modulesOf(executors[0]),
  }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function modulesOf(pid: number | undefined): Promise<string[]> {
  const root = new URL('../../', import.meta.url).href
  const urls = (await readFile(join(folder, String(pid)), 'utf8')).trim().split('\n')
  return [...new Set(urls)].filter((url) => url.startsWith('file:')).map((url) => url.replace(root, ''))
}

/** The packages among them. */
function packagesIn(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))].toSorted()
}

const foldersIn = (paths: readonly string[]): string[] => [
  ...new Set(paths.flatMap((path) => /^dist\/((?:worker\/)?[^/]+)\//.exec(path)?.[1] ?? [])),
]

it('the parent loads no package except zod, and only the parts of pawl that start and watch processes', () => {
  expect(packagesIn(loaded.parent)).toEqual(['zod'])
  expect(foldersIn(loaded.parent).toSorted()).toEqual([
    'agent',
    'connect',
    'log',
    'options',
    'session',
    'worker',
    'worker/one-process',
    'worker/parent',
    'worker/preflight',
  ])
  expect(loaded.parent.filter((path) => path.includes('agents.mjs'))).toEqual([])
})

it('an executor that has run jobs has loaded little besides the module, and neither Temporal nor Postgres', () => {
  expect(packagesIn(loaded.executor)).toEqual(['@noble/hashes', 'canonicalize', 'lru-cache', 'zod'])
  expect(loaded.executor.some((path) => path.endsWith('fixtures/processes/agents.mjs'))).toBe(true)
  expect(foldersIn(loaded.executor).toSorted()).toEqual([
    'agent',
    'calls',
    'jobs',
    'log',
    'options',
    'session',
    'waiting',
    'worker',
    'worker/executor',
  ])
})

it('the orchestrator loads the SDK and the pool, and no user code', () => {
  expect(packagesIn(loaded.orchestrator)).toEqual(expect.arrayContaining(['@temporalio/worker', 'pg']))
  expect(loaded.orchestrator.filter((path) => path.includes('agents.mjs'))).toEqual([])
  expect(foldersIn(loaded.orchestrator)).not.toContain('worker/executor')
})

it('no process loads any part of OpenTelemetry unless telemetry is on', () => {
  const all = [...loaded.parent, ...loaded.orchestrator, ...loaded.executor]
  expect(packagesIn(all).filter((name) => name.startsWith('@opentelemetry/'))).toEqual([])
  expect(all.filter((path) => path.includes('orchestrator/telemetry/')).toSorted()).toEqual(['dist/worker/orchestrator/telemetry/index.js'])
})

it('an invalid Postgres address is refused: the orchestrator detects it, and the caller is told without the password', async () => {
  const module = fileURLToPath(here('agents.mjs'))
  const refused = superviseWorkers({ module, postgres: 'mysql://root:secret@127.0.0.1/pawl', logger: SILENT })
  await expect(refused).rejects.toMatchObject({ name: 'StoreError', code: 'invalid_postgres_url' })
  await expect(refused).rejects.not.toThrow('secret')
})
