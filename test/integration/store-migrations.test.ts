// Migrations of the side store: beside workers of other releases, as another role, from the command line, behind pgbouncer.
import { tmpdir } from 'node:os'
import { afterEach, describe, expect, it } from 'vitest'
import { migrateStore } from '../../src/client/admin/migrating.ts'
import type { Store } from '../../src/store/index.ts'
import { migrationNames } from '../../src/store/postgres/migrate.ts'
import { codeOf } from '../support/codes.ts'
import { ownDatabases } from '../support/databases.ts'
import { findBouncer, startBouncer } from '../support/pgbouncer.ts'
import { runPawl } from './cli/processes.ts'
import { EPOCH, logOf, oneRun, received, started } from './store/sessions.ts'

const db = ownDatabases()
const { open, sql } = db

const FIRST = '0001_side_store'
const names = await migrationNames()
const LOG = logOf([started(), ...oneRun(1, 'u1')])

describe('the migrations', () => {
  it('the migrations are applied once when ten stores start without them', async () => {
    const stores = Array.from({ length: 10 }, () => open())
    await Promise.all(stores.map((store, index) => store.flush(`s${index}`, EPOCH, LOG)))
    expect(await sql('select name, breaking from pawl.migrations order by 1')).toEqual(names.map((name) => ({ name, breaking: false })))
    expect(await sql('select count(*)::int from pawl.sessions')).toEqual([{ count: 10 }])
  })
})

describe('a breaking migration of a newer release', () => {
  it('a newer release’s breaking migration keeps an older worker from writing until it is removed; reading continues', async () => {
    const [store, checking, off] = [open(), open({ migrate: 'check' }), open({ migrate: 'off' })]
    await store.flush('s', EPOCH, LOG.slice(0, 6))
    await sql(`insert into pawl.migrations (name, breaking) values ('0098_harmless', false), ('0099_future', true)`)
    for (const one of [store, checking]) {
      expect(await codeOf(one.flush('s', EPOCH, LOG))).toBe('store_too_new')
      expect(await codeOf(one.flush('new', EPOCH, LOG))).toBe('store_too_new')
      await one.markRunning('s', 't_1_1_0', 1, 'host:1')
      expect(await one.lists.toolCallsOf('s')).toMatchObject([{ status: 'issued' }])
    }
    await expect(store.flush('s', EPOCH, LOG)).rejects.toThrow(/0099_future.*Update this worker/s)
    expect(await codeOf(off.flush('off', EPOCH, LOG))).toBe('accepted')
    await sql('delete from pawl.migrations where breaking')
    expect(await store.flush('s', EPOCH, LOG)).toMatchObject({ seq: LOG.length })
  })
})

describe('an app role', () => {
  const role = `app_${Date.now()}`

  function asRole(): string {
    const app = new URL(db.url)
    app.username = role
    app.password = 'app'
    return app.href
  }

  afterEach(async () => {
    await db.closeStores()
    const [found] = await sql('select 1 from pg_roles where rolname = $1', [role])
    if (!found) return
    await sql(`drop owned by ${role}`)
    await sql(`drop role ${role}`)
  })

  it('an app role is granted what a worker with `check` needs, including on future tables, and no more', async () => {
    await sql(`create role ${role} login password 'app'`)
    const report = await migrateStore({ postgres: db.url, appRole: role })
    expect(report).toMatchObject({ schema: 'pawl', pending: [], grantedTo: role })
    expect(report.applied).toContain(FIRST)
    const app = open({ postgres: asRole(), migrate: 'check' })
    const log = [
      ...LOG,
      ...logOf(
        [
          { type: 'checkpoint_made', version: 1, reasons: ['turn'] },
          received('u2'),
          { type: 'rolled_back', toSeq: LOG.length, upToSeq: LOG.length + 2, effects: [] },
        ],
        LOG.at(-1),
      ),
    ]
    expect(await app.flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
    expect(await app.resume('s')).toMatchObject({ warnings: [] })
    expect(await sql('select count(*)::int from pawl.archived_messages')).toEqual([{ count: 1 }])
    await sql('create table pawl.to_come (id bigint generated always as identity)')
    const may = (what: string) => sql(`select ${what} as may`).then(([row]) => row?.may)
    expect(await may(`has_table_privilege('${role}', 'pawl.to_come', 'insert')`)).toBe(true)
    expect(await may(`has_table_privilege('${role}', 'pawl.sessions', 'truncate')`)).toBe(false)
    expect(await may(`has_table_privilege('${role}', 'pawl.migrations', 'insert')`)).toBe(false)
    expect(await may(`has_schema_privilege('${role}', 'pawl', 'create')`)).toBe(false)
  })

  it('an app role that does not exist is refused, and a role that owns nothing cannot migrate', async () => {
    expect(await codeOf(migrateStore({ postgres: db.url, appRole: 'missing_role' }))).toBe('role_not_found')
    await sql(`create role ${role} login password 'app'`)
    expect(await codeOf(migrateStore({ postgres: asRole(), schema: 'other' }))).toBe('permission_denied')
  })
})

describe('pawl migrate', () => {
  const command = (...args: string[]) => runPawl(['migrate', ...args], { cwd: tmpdir(), env: { DATABASE_URL: db.url } })

  it('pawl migrate lists what is missing, applies it, and then reports that nothing is missing', async () => {
    const checked = await command('--check')
    expect([checked.code, checked.stdout]).toEqual([1, expect.stringContaining(`missing ${FIRST}\n`)])
    expect(await sql(`select 1 from pg_namespace where nspname = 'pawl'`)).toEqual([])
    const applied = await command('--json')
    expect([applied.code, JSON.parse(applied.stdout)]).toMatchObject([0, { event: 'migrated', schema: 'pawl', pending: [] }])
    expect((await command()).stdout).toBe('The Postgres schema "pawl" is up to date.\n')
    expect((await command('--check')).code).toBe(0)
  })

  it('pawl migrate --check names the command that applies what is missing in the schema that it has looked at', async () => {
    const { stdout } = await command('--check', '--schema', 'other')
    const [, named = ''] = /Run `pawl migrate ([^`]+)` without --check/.exec(stdout) ?? []
    expect(named).toBe('--schema other')
    expect((await command(...named.split(' '))).code).toBe(0)
    expect(await sql(`select 1 from pg_namespace where nspname = 'pawl'`)).toEqual([])
    expect((await command('--check', '--schema', 'other')).code).toBe(0)
  })

  it('pawl migrate reports that the tables belong to a newer release', async () => {
    await command()
    await sql(`insert into pawl.migrations (name, breaking) values ('0098_harmless', false), ('0099_future', true)`)
    const { code, stdout } = await command('--check')
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^newer {3}0099_future\nWorkers of this release must not write/)])
    expect(await migrateStore({ postgres: db.url, check: true })).toMatchObject({ pending: [], tooNew: ['0099_future'] })
  })

  it('pawl migrate refuses what it cannot do, with a code', async () => {
    const unknown = await command('--app-role', 'missing role')
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('role_not_found: Postgres has no role "missing role"')])
    const both = await command('--check', '--app-role', 'x')
    expect([both.code, both.stderr]).toEqual([1, expect.stringContaining('invalid_usage: ')])
    const nowhere = await runPawl(['migrate'], { cwd: tmpdir() })
    expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('invalid_usage: ')])
  })
})

describe('behind pgbouncer in transaction mode', () => {
  it('behind pgbouncer in transaction mode, stores migrate concurrently, flush, watch and read', async ({ skip }) => {
    const bouncer = await findBouncer()
    if (typeof bouncer === 'string') return skip(`no pgbouncer: ${bouncer}`)
    const between = await startBouncer(bouncer, db.url)
    try {
      const stores = Array.from({ length: 10 }, () => open({ postgres: between.url }))
      const logs = [0, 1, 2, 3].map((n) =>
        logOf([started({ sessionId: `s${n}` }), ...oneRun(1, 'u1'), { type: 'checkpoint_made', version: 1, reasons: ['turn'] }]),
      )
      let woken = 0
      stores[0]?.watch('s0', () => woken++)
      await expect.poll(() => woken).toBeGreaterThan(0)
      const flushTo = (store: Store, index: number, cut: number) =>
        store.flush(`s${index % 4}`, EPOCH, logs[index % 4]?.slice(0, cut) ?? [])
      await Promise.all(stores.flatMap((store, index) => [3, 7, 100].map((cut) => flushTo(store, index, cut))))
      for (const [n, log] of logs.entries()) {
        expect(await stores[n]?.entries(`s${n}`)).toEqual(log)
        expect(await stores[n]?.resume(`s${n}`)).toMatchObject({ seq: log.length, warnings: [] })
      }
      expect(await sql('select name from pawl.migrations order by 1')).toEqual(names.map((name) => ({ name })))
      expect(await sql('select version from pawl.checkpoints')).toHaveLength(4)
      // The stores leave no session state on the connections that they share.
      expect(await sql(`select 1 from pg_locks where locktype = 'advisory'`)).toEqual([])
    } finally {
      await db.closeStores()
      await between.stop()
    }
  })
})
