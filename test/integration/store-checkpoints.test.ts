// Checkpoints in a real Postgres: one that cannot be written or read never stops a session.
import { beforeEach, describe, expect, it } from 'vitest'
import type { EventBody, LogEntry } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import type { Store } from '../../src/store/index.ts'
import { ownDatabases } from '../support/databases.ts'
import { EPOCH, eventsOf, logOf, oneRun, started } from './store/sessions.ts'
import { shortHash } from '../../src/session/digest.ts'

const db = ownDatabases()
const { sql } = db
let warnings: string[]

const logger = { debug() {}, info() {}, error() {}, warn: (_: unknown, text?: string) => void warnings.push(text ?? '') }
const open = (postgres = db.url): Store => db.open({ postgres, logger })

beforeEach(() => {
  warnings = []
})

const made = (version: number): EventBody => ({
  type: 'checkpoint_made',
  version,
  run: version,
  reasons: ['turn'],
  lastMessageId: `m_${version}_2`,
})

/** Runs with a checkpoint after each. */
const LOG = logOf([started(), ...[1, 2, 3, 4].flatMap((run) => [...oneRun(run, `u${run}`), made(run)])])

/** The entries up to and including a checkpoint. */
function upTo(version: number): LogEntry[] {
  const end = eventsOf(LOG).findIndex((event) => event.type === 'checkpoint_made' && event.version === version)
  return LOG.slice(0, end + 1)
}

const stateOf = (log: readonly LogEntry[]) => fold(undefined, eventsOf(log))
const versions = async () => (await sql('select version from pawl.checkpoints order by version')).map((row) => row.version)
const checkpointErrors = async () => sql(`select seq::int, context, class, code, message, retryable, attempt from pawl.errors order by seq`)

describe('a checkpoint', () => {
  it('a checkpoint is the folded state without the message ids, whichever process flushed it', async () => {
    for (const version of [1, 2, 3, 4]) await open().flush('s', EPOCH, upTo(version))
    expect(await versions()).toEqual([1, 2, 3, 4])
    const [row] = await sql('select * from pawl.checkpoints where version = 3')
    const { accepted: _, ...slim } = stateOf(upTo(3)) ?? expect.fail()
    expect(JSON.parse(String(row?.state))).toEqual(slim)
    expect(row).toMatchObject({
      agent: 'support',
      run: 3,
      seq: String(upTo(3).length),
      up_to_seq: String(upTo(3).length),
      last_message_id: 'm_3_2',
      reasons: ['turn'],
      state_version: 1,
    })
    expect(warnings).toEqual([])
  })

  it.each([
    [
      'a trigger raises',
      `create function pawl.no() returns trigger language plpgsql as $$ begin raise 'not today'; end $$;
       create trigger no before insert on pawl.checkpoints for each row execute function pawl.no()`,
      'drop function pawl.no cascade',
      'store_failed',
    ],
    [
      'a constraint forbids it',
      'alter table pawl.checkpoints add constraint no check (version <> 2)',
      'alter table pawl.checkpoints drop constraint no',
      'store_failed',
    ],
    [
      'its table is gone',
      'alter table pawl.checkpoints rename to elsewhere',
      'alter table pawl.elsewhere rename to checkpoints',
      'schema_behind',
    ],
  ])(
    'a checkpoint that cannot be written because %s causes an error and a warning, and the next one covers it',
    async (_, breakIt, repairIt, code) => {
      const store = open()
      await store.flush('s', EPOCH, upTo(1))
      await sql(breakIt)
      expect(await store.flush('s', EPOCH, upTo(2))).toMatchObject({ seq: upTo(2).length })
      expect(await checkpointErrors()).toMatchObject([
        {
          seq: upTo(2).length,
          context: 'checkpoint',
          class: 'StoreError',
          code,
          message: expect.stringContaining('Checkpoint 2 was not written'),
          retryable: true,
          attempt: null,
        },
      ])
      expect(warnings).toEqual(['a checkpoint was not written; the next one covers it'])
      expect(await store.entries('s')).toEqual(upTo(2))
      await sql(repairIt)
      await open().flush('s', EPOCH, upTo(3))
      expect(await versions()).toEqual([1, 3])
      expect(await store.resume('s')).toMatchObject({ state: stateOf(upTo(3)), warnings: [] })
    },
  )

  it('a checkpoint that the role may not write causes an error, even in a process that has to read the state first', async () => {
    await open().flush('s', EPOCH, upTo(1))
    const role = `app_${Date.now()}`
    await sql(`create role ${role} login password 'app'`)
    await sql(
      `grant usage on schema pawl to ${role}; grant select, insert, update, delete on all tables in schema pawl to ${role}; revoke all on pawl.checkpoints from ${role}`,
    )
    const app = new URL(db.url)
    app.username = role
    app.password = 'app'
    const [store, cold] = [open(app.href), open(app.href)]
    await store.flush('s', EPOCH, upTo(2))
    await cold.flush('s', EPOCH, upTo(3))
    expect(await checkpointErrors()).toMatchObject([
      { seq: upTo(2).length, code: 'permission_denied' },
      { seq: upTo(3).length, code: 'permission_denied' },
    ])
    await sql(`grant all on pawl.checkpoints to ${role}`)
    await cold.flush('s', EPOCH, upTo(4))
    expect(await versions()).toEqual([1, 4])
    await Promise.all([store.close(), cold.close()])
    await sql(`drop owned by ${role}`)
    await sql(`drop role ${role}`)
  })

  it('a checkpoint whose state is too large causes an error, and the flush continues', async () => {
    const context = { note: 'x'.repeat(300_000) }
    const log = logOf([started({ context }), ...oneRun(1, 'u1'), made(1)])
    expect(await open().flush('s', EPOCH, log)).toMatchObject({ seq: log.length })
    expect(await versions()).toEqual([])
    expect(await checkpointErrors()).toMatchObject([{ code: 'checkpoint_too_large' }])
    expect(await open().resume('s')).toMatchObject({ state: stateOf(log), warnings: [] })
  })

  it('a checkpoint that was written late records since when it was due, and why it was late', async () => {
    const since = new Date('2026-11-21T10:00:00Z')
    await open().flush('s', EPOCH, upTo(2), { late: { since, code: 'store_unavailable', message: 'Postgres cannot be had', attempts: 3 } })
    expect(await versions()).toEqual([1, 2])
    expect(await checkpointErrors()).toMatchObject([
      {
        seq: upTo(2).length,
        context: 'checkpoint',
        class: 'LateCheckpoint',
        code: 'store_unavailable',
        message: 'Checkpoint 2 was written late: 3 attempts failed since 2026-11-21T10:00:00.000Z: Postgres cannot be had',
      },
    ])
    await open().flush('s', EPOCH, LOG.slice(0, upTo(2).length + 3), { late: { since, code: 'x', message: 'y', attempts: 1 } })
    expect(await checkpointErrors()).toHaveLength(1)
  })

  it('a checkpoint records that the session was rolled back past it', async () => {
    const toSeq = upTo(1).length
    const log = [
      ...upTo(3),
      ...logOf(
        [
          {
            type: 'rolled_back',
            toSeq,
            upToSeq: upTo(3).length,
            lastMessageId: 'm_1_2',
            effects: [],
            removed: ['u2', 'u3'].map(shortHash),
          },
        ],
        upTo(3).at(-1),
      ),
    ]
    await open().flush('s', EPOCH, log)
    expect(await sql('select version, archived_seq::int from pawl.checkpoints order by 1')).toEqual([
      { version: 1, archived_seq: null },
      { version: 2, archived_seq: log.length },
      { version: 3, archived_seq: log.length },
    ])
    expect((await sql('select message_id, why from pawl.archived_messages order by seq')).at(0)).toEqual({
      message_id: 'u2',
      why: 'rolled_back',
    })
    expect(await open().resume('s')).toMatchObject({ state: stateOf(log), warnings: [] })
  })
})

describe('a session is resumed', () => {
  /** Its head is beyond its newest checkpoint. */
  const log = LOG.slice(0, upTo(3).length + 4)
  const whole = { state: stateOf(log), seq: log.length, digest: log.at(-1)?.digest }
  let store: Store

  beforeEach(async () => {
    store = open()
    await store.flush('s', EPOCH, log)
  })

  it('a session is resumed with the state that its events fold to', async () => {
    expect(await store.resume('s')).toEqual({ ...whole, warnings: [] })
    expect(await store.resume('unknown')).toBeNull()
  })

  it('a session is resumed from its newest checkpoint, without the events before it', async () => {
    await sql(`delete from pawl.events where seq <= ${upTo(3).length}`)
    expect(await store.resume('s')).toEqual({ ...whole, warnings: [] })
  })

  it.each([
    ['is not JSON', `state = '{'`, 'it is not JSON'],
    ['has an invalid member', `state = '{"v":1,"seq":2}'`, 'its sessionId is invalid'],
    ['comes from the future', 'state_version = 99', 'its version 99 is newer than 1'],
    ['is of another session', `state = replace(state, '"sessionId":"s"', '"sessionId":"t"')`, 'it belongs to session t'],
    ['is of another event', `state = (select state from pawl.checkpoints where version = 2)`, 'it is the state after event'],
  ])('a session is resumed from the checkpoint before one that %s, with a warning', async (_, change, why) => {
    await sql(`update pawl.checkpoints set ${change} where version = 3`)
    await sql(`delete from pawl.events where seq <= ${upTo(2).length}`)
    expect(await store.resume('s')).toEqual({ ...whole, warnings: [expect.stringMatching(`^checkpoint 3 was skipped: ${why}`)] })
    // The next flush continues from there, in a process that has to read the state.
    await open().flush('s', EPOCH, LOG)
    expect(warnings[0]).toContain('checkpoint 3 was skipped')
    expect(await store.resume('s')).toMatchObject({ state: stateOf(LOG), warnings: [] })
  })

  it('a session is resumed from any remaining checkpoint, whichever others are deleted', async () => {
    await sql('delete from pawl.checkpoints where version = 2')
    expect(await store.resume('s')).toEqual({ ...whole, warnings: [] })
    await sql('delete from pawl.checkpoints where version = 3')
    expect(await store.resume('s')).toEqual({ ...whole, warnings: [] })
    await open().flush('s', EPOCH, LOG)
    expect(await versions()).toEqual([1, 4])
  })

  it('a session is resumed from its events, if no checkpoint is readable', async () => {
    await sql(`update pawl.checkpoints set state = ''`)
    const resumed = await store.resume('s')
    expect(resumed).toMatchObject(whole)
    expect(resumed?.warnings).toHaveLength(4)
    expect(resumed?.warnings.at(-1)).toBe('the state was folded from the events')
  })

  it('a session is resumed as lost, with only its basic facts, if neither checkpoints nor events are complete', async () => {
    await sql(`update pawl.checkpoints set state = ''`)
    await sql('delete from pawl.events where seq = 5')
    expect(await store.resume('s')).toMatchObject({
      lost: true,
      agent: 'support',
      context: { tenant: 't1' },
      tags: ['vip'],
      run: 4,
      checkpoint: 3,
      seq: log.length,
      digest: log.at(-1)?.digest,
    })
  })

  it('a session is resumed as lost, if events above the checkpoints are missing, because they cannot be guessed', async () => {
    await sql(`delete from pawl.events where seq = ${upTo(3).length + 2}`)
    const resumed = await store.resume('s')
    expect(resumed).toMatchObject({ lost: true, seq: log.length })
    expect(resumed?.warnings[0]).toBe('events above checkpoint 3 are missing')
  })
})
