// Postgres in every kind of trouble: runs finish meanwhile, and afterwards the store has each of their rows, once.
import { execFile } from 'node:child_process'
import { mkdtemp, realpath, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startStack, type Stack } from 'pawl/testing'
import type { CreateWorkerOptions } from 'pawl/worker'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { defined } from '../../src/session/defined.ts'
import type { SharedStack } from '../setup/stack.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, type Played, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { type SlowProxy, startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)

const SESSIONS = size(2, 3)
const TURNS = 5
const UNTIL_DONE_MS = 100_000
/** More than fits into one flush. */
const BACKLOG = size(1_100, 3_000)

/** A Postgres of the test's own beside the shared Temporal, and a deployment that reaches it through a proxy. */
interface Ground {
  stack: Stack
  direct: SharedStack
  proxy: SlowProxy
  here: Deployment
  player: Stage
  close(): Promise<void>
}

async function layGround(dataDir?: string): Promise<Ground> {
  const stack = await startStack({ temporal: ['address'], postgres: ['embedded'], ...defined({ dataDir }) })
  return deployOn(stack, stack.databaseUrl, {}, () => stack.stop())
}

/** Deploys on a running Postgres, as the role in `url`. */
async function deployOn(
  stack: Stack,
  url: string,
  options: Pick<CreateWorkerOptions, 'migrate'>,
  afterwards: () => Promise<void>,
): Promise<Ground> {
  const proxy = await startSlowProxy(url)
  const direct = { ...inject('stack'), databaseUrl: stack.databaseUrl }
  const here = await deploy({ stack: { ...direct, databaseUrl: proxy.url } })
  const player = stage()
  await here.startWorker({ agents: [player.agent], ...options })
  return {
    stack,
    direct,
    proxy,
    here,
    player,
    async close() {
      await here.stop()
      await proxy.close()
      await afterwards()
    },
  }
}

/** Two runs whose turns have a write and a read each. Some reads fail once, one write is requested again, and a message steers. */
function playThrough({ here, player }: Ground): Played {
  const played: Played = player.play(here.pawl, {
    async model(request) {
      const turn = answersIn(request)
      if (saidIn(request).includes('again')) return 'done again'
      if (turn === 2) await played.session.send('by the way', { messageId: 'by the way' })
      if (turn >= TURNS) return 'done'
      return [use('put', `thing ${turn === TURNS - 1 ? 0 : turn}`), use('look', `at ${turn}`)]
    },
    look({ what }, { attempt, turn }) {
      if (turn % 2 === 1 && attempt === 1) throw new Error(`cannot look ${what}`)
      return `looked ${what}`
    },
  })
  return played
}

/** Starts sessions, and resolves when all their runs are done. */
async function runThrough(ground: Ground, sessions = SESSIONS): Promise<Played[]> {
  const all = Array.from({ length: sessions }, () => playThrough(ground))
  await Promise.all(
    all.map(async ({ session }) => {
      const first = await session.send('go', { isNew: true })
      expect(await first.result({ timeout: UNTIL_DONE_MS })).toMatchObject({ run: 1, text: 'done' })
      expect(await (await session.send('again')).result({ timeout: UNTIL_DONE_MS })).toMatchObject({ run: 2, text: 'done again' })
    }),
  )
  return all
}

async function expectEachRowOnce({ direct }: Ground, all: readonly Played[]): Promise<void> {
  for (const { id, count } of all) {
    const { events, rows } = await rowsMatchEvents(direct, id, { timeoutMs: 60_000 })
    expect(count('put')).toBe(TURNS - 1)
    expect(ofType(events, 'run_completed')).toHaveLength(2)
    expect(rows.tool_calls).toHaveLength(2 * TURNS)
    expect(rows.errors.filter(({ attempt }) => attempt !== null).map(({ attempt, turn }) => [attempt, turn])).toEqual(
      [1, 3, 5].map((turn) => [1, turn]),
    )
  }
}

async function sql({ direct }: Ground, ...statements: string[]): Promise<void> {
  const client = new pg.Client(direct.databaseUrl)
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

/** Whether Postgres refuses an ordinary write with this code. */
async function refuses(ground: Ground, code: string): Promise<boolean> {
  return sql(ground, 'create table public.refused ()', 'drop table public.refused').then(
    () => false,
    (error: { code?: string }) => error.code === code,
  )
}

describe('runs finish, and every row is there once afterwards, with Postgres', () => {
  let ground: Ground
  let dataDir: string

  beforeAll(async () => {
    dataDir = await realpath(await mkdtemp(join(tmpdir(), 'pawl-trouble-')))
    ground = await layGround(dataDir)
    await expectEachRowOnce(ground, await runThrough(ground, 1))
  })
  afterAll(async () => {
    await ground?.close()
    await rm(dataDir, { recursive: true, force: true })
  })

  it('runs finish, and every row is there once afterwards, with Postgres down the whole time', async () => {
    const { postgres } = ground.stack
    await postgres.stop()
    const all = await runThrough(ground).finally(() => postgres.start())
    await expectEachRowOnce(ground, all)
  })

  it('runs finish, and every row is there once afterwards, with Postgres crashing and restarting every other second', async () => {
    const { postgres } = ground.stack
    let done = false
    let restarts = 0
    // Two batches at once, so that Postgres restarts during the runs, however quick they are.
    const running = Promise.all([runThrough(ground), runThrough(ground)]).finally(() => {
      done = true
    })
    while (!done) {
      await postgres.stop(restarts % 2 === 0 ? 'crash' : 'orderly')
      await postgres.start()
      restarts += 1
      await Promise.race([sleep(2_000), running.catch(() => undefined)])
    }
    await expectEachRowOnce(ground, (await running).flat())
    expect(restarts).toBeGreaterThan(0)
  })

  it('runs finish, and every row is there once afterwards, with Postgres read-only by default', async () => {
    await sql(ground, 'alter system set default_transaction_read_only = on', 'select pg_reload_conf()')
    await until('it is read-only', () => refuses(ground, '25006'))
    const all = await runThrough(ground).finally(() =>
      sql(ground, 'alter system reset default_transaction_read_only', 'select pg_reload_conf()'),
    )
    await expectEachRowOnce(ground, all)
  })

  it('runs finish, and every row is there once afterwards, with Postgres read-only permanently, like a standby', async () => {
    const { postgres } = ground.stack
    const signal = join(dataDir, 'postgres', 'standby.signal')
    await postgres.stop()
    await writeFile(signal, '')
    await postgres.start()
    await until('it is read-only', () => refuses(ground, '25006'))
    const all = await runThrough(ground).finally(async () => {
      await postgres.stop()
      await rm(signal)
      await postgres.start()
    })
    await expectEachRowOnce(ground, all)
  })

  it('runs finish, and every row is there once afterwards, with Postgres refusing every write of its role for a while', async () => {
    await sql(
      ground,
      "create role app login password 'app'",
      'grant usage on schema pawl to app',
      'grant all on all tables in schema pawl to app',
    )
    await sql(ground, 'grant usage on all sequences in schema pawl to app')
    const asApp = new URL(ground.stack.databaseUrl)
    Object.assign(asApp, { username: 'app', password: 'app' })
    const app = await deployOn(ground.stack, asApp.href, { migrate: 'off' }, async () => undefined)
    try {
      await expectEachRowOnce(app, await runThrough(app, 1))
      await sql(ground, 'revoke insert, update, delete on all tables in schema pawl from app')
      const all = await runThrough(app).finally(() => sql(ground, 'grant all on all tables in schema pawl to app'))
      await expectEachRowOnce(app, all)
    } finally {
      await app.close()
    }
  })

  it('runs finish, and every row is there once afterwards, with Postgres delaying each statement by two seconds', async () => {
    ground.proxy.delayMs = 2_000
    const all = await runThrough(ground).finally(() => {
      ground.proxy.delayMs = 0
    })
    await expectEachRowOnce(ground, all)
  })

  it('runs finish with every row once if Postgres is down until thousands of events wait, flushed in parts', async () => {
    const { postgres } = ground.stack
    await postgres.stop()
    const played = playThrough(ground)
    try {
      await (await played.session.send('go', { isNew: true })).result({ timeout: UNTIL_DONE_MS })
      const handle = ground.here.temporal.workflow.getHandle(`pawl:${played.id}`)
      const backlog = async () => (await handle.query<{ seq: number }>('state')).seq
      while ((await backlog()) < BACKLOG) {
        const seq = await backlog()
        // Each invalid signal adds an event, without a model call.
        await Promise.all(Array.from({ length: 100 }, () => handle.signal('nonsense', 1)))
        await until('they are events', async () => (await backlog()) >= seq + 100, 40_000)
      }
    } finally {
      await postgres.start()
    }
    expect(await (await played.session.send('again')).result({ timeout: UNTIL_DONE_MS })).toMatchObject({ run: 2, text: 'done again' })
    await expectEachRowOnce(ground, [played])
    const client = new pg.Client(ground.direct.databaseUrl)
    await client.connect()
    const { rows } = await client.query<{ events: string }>(
      'select last_seq - first_seq + 1 as events from pawl.commits where session_id = $1',
      [played.id],
    )
    await client.end()
    expect(Math.max(...rows.map(({ events }) => Number(events)))).toBeLessThanOrEqual(1_000)
  })

  it('runs finish with every row once if Postgres closes connections in the middle of a transaction', async () => {
    // Cuts off whatever is being written, again and again until the runs are done.
    let done = false
    const running = runThrough(ground).finally(() => {
      done = true
    })
    while (!done) {
      await sql(
        ground,
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pawl' and pid <> pg_backend_pid()`,
      )
      await Promise.race([sleep(50), running.catch(() => undefined)])
    }
    await expectEachRowOnce(ground, await running)
  })
})

describe('runs finish, and every row is there once afterwards, with a full disk', () => {
  let mounted: string | undefined
  let ground: Ground | undefined

  beforeAll(async () => {
    mounted = await smallDisk()
    if (mounted !== undefined) ground = await layGround(join(mounted, 'data'))
  })
  afterAll(async () => {
    await ground?.close()
    if (mounted === undefined) return
    await run('umount', [mounted])
    await rm(mounted, { recursive: true })
  })

  it('runs finish, and every row is there once afterwards, with a disk that was full for a while', async ({ skip }) => {
    if (!ground || mounted === undefined) return skip('a disk of its own can be mounted as root on Linux only')
    await expectEachRowOnce(ground, await runThrough(ground, 1))
    const ballast = join(mounted, 'ballast')
    await fill(ballast, mounted)
    await until('Postgres finds no room', () => hasNoRoom(ground!), 60_000)
    const all = await runThrough(ground)
    await rm(ballast)
    // A Postgres that cannot write its log exits.
    await ground.stack.postgres.start()
    await expectEachRowOnce(ground, all)
  })
})

/** A file system of 300 MB in memory; undefined if this user may not mount one. */
async function smallDisk(): Promise<string | undefined> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'pawl-disk-')))
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=300m,mode=755', 'tmpfs', path])
    return path
  } catch {
    await rm(path, { recursive: true })
    return undefined
  }
}

/** Writes a file that takes up all free space. */
async function fill(file: string, disk: string): Promise<void> {
  const { bavail, bsize } = await statfs(disk)
  await writeFile(file, Buffer.alloc(Math.max(0, bavail * bsize)))
  await writeFile(file, Buffer.alloc(4_096), { flag: 'a' }).catch(() => undefined)
}

/** `disk_full`, and the codes of a Postgres that exits or restarts because it cannot write its log. */
const NO_ROOM = new Set(['53100', '57P02', '57P03'])

/** Whether Postgres fails or has exited because the disk is full. */
async function hasNoRoom(ground: Ground): Promise<boolean> {
  const filling =
    'create table if not exists public.filling (text text); insert into public.filling select repeat(md5(n::text), 60) from generate_series(1, 20000) n'
  return sql(ground, filling).then(
    () => false,
    (error: { code?: string }) => NO_ROOM.has(error.code ?? '') || ground.stack.postgres.pid === undefined,
  )
}
