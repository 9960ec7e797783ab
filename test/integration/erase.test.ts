// Erasing removes a session's content permanently and everywhere, even from late flushes; who asked for it stays on record.
import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { LogEntry } from '../../src/session/events.ts'
import { copyPast } from '../../src/activities/load-fork.ts'
import { erase } from '../../src/client/admin/erasing.ts'
import { deploymentStatus } from '../../src/client/index.ts'
import { isHistoryGone } from '../../src/connect/histories.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { excludeWriters } from '../../src/store/postgres/commit-order.ts'
import { schemaOf } from '../../src/store/postgres/schema.ts'
import type { SessionHandle } from 'pawl/client'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { answersIn, type Played, type Scene, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { runPawl } from './cli/processes.ts'
import { logOf, received } from './store/sessions.ts'

const SECRET = 'the-secret-of-mr-x'

let schema: OwnSchema
let here: Deployment
let player: Stage
let store: Store
let worker: RunningWorker

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  schema = await ownSchema(databaseUrl, 'erase')
  here = await deploy({ schema: schema.name })
  player = stage()
  store = openStore({ postgres: databaseUrl, schema: schema.name })
  worker = await here.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  await here?.stop()
  await store?.close()
  await schema?.close()
})

/** A session with the secret in every place that can hold text. */
function play(scene: Scene = {}): Played {
  return player.play(
    here.pawl,
    {
      model: (request) => (answersIn(request) % 2 === 0 ? [use('put', SECRET)] : `I know of ${SECRET}`),
      put: ({ what }) => `put ${what}`,
      ...scene,
    },
    { context: { user: SECRET }, tags: [SECRET] },
  )
}

async function talked(): Promise<Played> {
  const played = play()
  await (await played.session.send(`here is ${SECRET}`, { metadata: { note: SECRET } })).result({ timeout: 30_000 })
  await until('its rows are there', async () => (await store.lists.session(played.id))?.status === 'idle')
  return played
}

async function closed(): Promise<Played> {
  const played = await talked()
  await played.session.close()
  await here.workflowEnded(played.id)
  return played
}

const handleOf = (id: string, executionId?: string) => here.temporal.workflow.getHandle(`pawl:${id}`, executionId)

async function executionIds(id: string): Promise<string[]> {
  const ids: string[] = []
  for await (const info of here.temporal.workflow.list({ query: `WorkflowId = 'pawl:${id}'` })) ids.push(info.runId)
  return ids
}

/** Waits until the server has deleted the execution: it does so only half a minute after the execution has closed. */
async function waitUntilDeleted(id: string, executionId: string): Promise<void> {
  const execution = { workflowId: `pawl:${id}`, runId: executionId }
  const isGone = async (): Promise<boolean> => {
    try {
      await here.temporal.connection.workflowService.getWorkflowExecutionHistory({ namespace: here.stack.namespace, execution })
      return false
    } catch (error) {
      return isHistoryGone(error)
    }
  }
  await until('Temporal has deleted it', isGone, 90_000)
}

/** How many flushes wait until writers are no longer excluded. */
async function waitingFlushes(): Promise<number> {
  const [row] = await schema.query(
    `select count(*)::int as n from pg_stat_activity where wait_event = 'advisory' and strpos(query, 'pawl:commits:' || $1) > 0`,
    [schema.name],
  )
  return Number(row?.n)
}

describe('a closed session', () => {
  it('a closed session is removed from every table and from Temporal; a row without content and the audit remain', async () => {
    const { id, session } = await closed()
    // The session gets a second chain of executions, too.
    await (await session.send('once more')).result({ timeout: 30_000 })
    await session.close()
    await here.workflowEnded(id)
    const executions = await until('both chains are visible', async () => {
      const ids = await executionIds(id)
      return ids.length === 2 && ids
    })
    const before = await schema.counts(id)
    const [row] = await schema.query('select * from {schema}.sessions where session_id = $1', [id])
    expect(await schema.holding(SECRET)).toEqual(expect.arrayContaining(['events', 'messages', 'sessions', 'tool_calls']))

    const report = await here.pawl.erase(id, { by: 'dpo@example.com', reason: 'request 4711' })
    expect(report).toMatchObject({ sessionId: id, terminated: false, executions: 2, forks: [], parent: null })
    expect(report.rows).toMatchObject({ events: before.events, messages: before.messages, tool_calls: before.tool_calls })
    expect(await schema.holding(SECRET)).toEqual([])
    expect(await schema.counts(id)).toEqual({ sessions: 1, audit: 1 })
    const [tombstone] = await schema.query('select * from {schema}.sessions where session_id = $1', [id])
    expect(tombstone).toMatchObject({
      agent: 'player',
      status: 'closed',
      context: null,
      tags: [],
      error: null,
      raw: null,
      run: row?.run,
      flushed_seq: row?.flushed_seq,
      erased_at: expect.any(Date),
    })
    expect(await schema.query('select action, by, details from {schema}.audit where session_id = $1', [id])).toEqual([
      {
        action: 'erase',
        by: 'dpo@example.com',
        details: expect.objectContaining({ reason: 'request 4711', rows: report.rows, executions: expect.arrayContaining(executions) }),
      },
    ])
    for (const executionId of executions) await waitUntilDeleted(id, executionId)
  })

  it('a closed session may be erased twice: the audit records each time', async () => {
    const { id } = await closed()
    await here.pawl.erase(id, { by: 'a' })
    expect(await here.pawl.erase(id, { by: 'b' })).toMatchObject({ terminated: false, rows: { events: 0, messages: 0 } })
    expect(await schema.query('select by from {schema}.audit where session_id = $1 order by id', [id])).toEqual([{ by: 'a' }, { by: 'b' }])
  })

  it('erasing a closed session also deletes its archive', async () => {
    const { id } = await closed()
    await schema.age([id], 100)
    await here.pawl.prune({ olderThan: '90d' })
    expect(await schema.holding(SECRET)).toContain('archived_messages')
    const report = await here.pawl.erase(id, { by: 'ops' })
    expect(report.rows.archived_messages).toBeGreaterThan(0)
    expect(await schema.holding(SECRET)).toEqual([])
  })

  it.each([
    ['resumed', (session: SessionHandle) => session.resume()],
    ['paused', (session: SessionHandle) => session.pause()],
    ['rolled back', (session: SessionHandle) => session.rollback({ run: 1, by: 'ann' })],
    ['granted more', (session: SessionHandle) => session.raise({ scope: 'session', maxUsd: 5 })],
  ])(
    'an erased session is not %s, because only a message starts it over: the request says that it was erased, and leaves nothing',
    async (_, ask) => {
      const { id } = await closed()
      await here.pawl.erase(id, { by: 'ops' })
      const rows = await schema.counts(id)
      await expect(ask(here.pawl.session(id))).rejects.toMatchObject({ code: 'session_not_found', erasedAt: expect.any(Number) })
      await here.workflowEnded(id)
      expect(await schema.counts(id)).toEqual(rows)
    },
  )

  it('a closed session starts over at the next message: its numbers continue, and its content does not come back', async () => {
    const { id } = await closed()
    await here.pawl.erase(id, { by: 'ops' })
    const [tombstone] = await schema.query('select run, flushed_seq from {schema}.sessions where session_id = $1', [id])
    const again = player.play(here.pawl, {}, { id, context: { user: 'another' } })
    expect(await (await again.session.send('hello')).result({ timeout: 30_000 })).toMatchObject({ run: Number(tombstone?.run) + 1 })
    expect(saidIn(again.requests[0]!)).toEqual(['hello'])
    await until('its rows are there', async () => (await store.lists.session(id))?.status === 'idle')
    const [first] = await store.events(id)
    expect(first).toMatchObject({
      type: 'session_started',
      seq: Number(tombstone?.flushed_seq) + 1,
      agent: 'player',
      context: { user: 'another' },
    })
    expect(await schema.holding(SECRET)).toEqual([])
    await again.session.close()
  })
})

describe('an open session', () => {
  it('an open session is not erased without force, and nothing changes', async () => {
    const { id, session } = await talked()
    const before = await schema.everything([id])
    await expect(here.pawl.erase(id, { by: 'ops' })).rejects.toMatchObject({ code: 'session_open' })
    expect(await schema.everything([id])).toEqual(before)
    expect((await handleOf(id).describe()).status.name).toBe('RUNNING')
    expect(await (await session.send('still there?')).result({ timeout: 30_000 })).toMatchObject({ run: 2 })
    await here.pawl.erase(id, { by: 'ops', force: true })
  })

  it('force terminates and erases an open session in the middle of a run; late results do not bring it back', async () => {
    const middle = gate()
    const played = play({
      async put({ what }, ctx) {
        await middle.pass(ctx.signal).catch(() => undefined)
        return `put ${what}`
      },
    })
    await played.session.send(`here is ${SECRET}`)
    await middle.reached
    await until('a part of it is stored', async () => (await store.events(played.id)).length > 3)
    const report = await here.pawl.erase(played.id, { by: 'ops', force: true })
    expect(report).toMatchObject({ terminated: true, executions: 1 })
    expect(report.rows.events).toBeGreaterThan(3)
    middle.open()
    // A worker that has stopped has flushed everything that it was going to flush.
    await worker.stop()
    expect(await schema.holding(SECRET)).toEqual([])
    expect(await schema.counts(played.id)).toEqual({ sessions: 1, audit: 1 })
    worker = await here.startWorker({ agents: [player.agent] })
    // The next message comes at once, while Temporal still has the history of the terminated execution.
    const again = player.play(here.pawl, {}, { id: played.id })
    expect(await (await again.session.send('hello')).result({ timeout: 30_000 })).toMatchObject({ run: 2 })
    await until('its rows are there', async () => (await store.lists.session(played.id))?.status === 'idle')
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('a session that closes by itself', () => {
  it('a session that closes by itself while it is erased with force is erased', async () => {
    const { id, session } = await talked()
    const { workflow } = here.temporal
    const getHandle = (workflowId: string, runId?: string) => {
      const handle = workflow.getHandle(workflowId, runId)
      const terminate = async (reason?: string) => {
        await session.close()
        await here.workflowEnded(id)
        return handle.terminate(reason)
      }
      return { ...handle, terminate }
    }
    const client = Object.create(here.temporal, {
      workflow: { value: Object.create(workflow, { getHandle: { value: getHandle } }) },
    }) as Client
    expect(await erase(client, store, id, { by: 'ops', force: true })).toMatchObject({ terminated: false, executions: 1 })
    expect(await schema.counts(id)).toEqual({ sessions: 1, audit: 1 })
  })
})

describe('the status', () => {
  const connect = () => ({
    temporal: { address: here.stack.temporalAddress, namespace: here.stack.namespace },
    postgres: here.stack.databaseUrl,
    schema: schema.name,
    taskQueue: here.taskQueue,
  })

  it('the status of an erased session is closed and erased, although Temporal still has the terminated history for a while', async () => {
    const middle = gate()
    const running = play({ put: async () => middle.pass() })
    await running.session.send('run')
    await middle.reached
    const failing = play({
      model: () => {
        throw new Error('broken')
      },
    })
    await (await failing.session.send('fail')).settled({ timeout: 30_000 })
    const paused = await talked()
    await paused.session.pause({ by: 'ops' })
    const ids = [running.id, failing.id, paused.id]
    for (const id of ids) {
      await until('it is stored', async () => (await store.events(id)).length > 3)
      await here.pawl.erase(id, { by: 'ops', force: true })
      const { erasedAt } = (await store.lists.session(id))!
      expect(await here.pawl.session(id).status()).toMatchObject({
        status: 'closed',
        from: 'store',
        since: erasedAt?.getTime(),
        erasedAt: erasedAt?.getTime(),
        run: null,
        error: null,
        stored: null,
        waitsFor: [{ for: 'message' }],
      })
      for await (const event of here.pawl.session(id).events()) throw new Error(`it still has ${event.type}`)
    }
    const { overview, unopened } = await deploymentStatus(connect(), { limit: 1_000 })
    expect([...(overview?.items ?? []), ...(unopened ?? [])].filter(({ sessionId }) => ids.includes(sessionId))).toEqual([])
    middle.open()
  })

  it('nothing reads the content of a session from the moment it is erased, although Temporal still has its history', async () => {
    const { id } = await talked()
    await here.pawl.erase(id, { by: 'ops', force: true })
    const session = here.pawl.session(id)
    const reads = [
      () => session.state(),
      () => session.plan(),
      () => session.plans(),
      () => session.memory(),
      () => session.memoryVersions(),
      () => session.budgets(),
      () => session.runReport(1),
      () => session.interrupt(),
    ]
    const told = { name: 'SessionNotFoundError', code: 'session_not_found', message: expect.stringMatching(/was erased at \d{4}-/) }
    for (const read of reads) await expect(read()).rejects.toMatchObject(told)
    await expect(session.messages()).resolves.toEqual([])
    const run = await runPawl(['run', id, '--schema', schema.name], {
      cwd: process.cwd(),
      env: { TEMPORAL_ADDRESS: here.stack.temporalAddress, TEMPORAL_NAMESPACE: here.stack.namespace, DATABASE_URL: here.stack.databaseUrl },
    })
    expect(run.stderr).toMatch(/^session_not_found: Session ".+" was erased at [^?]*\.\n?/)
    expect(run.code).toBe(1)
  })

  it('lists of an erased session’s rows say when it was erased, by whom and why', async () => {
    const { id, session } = await closed()
    await here.pawl.erase(id, { by: 'dpo', reason: 'request 4711' })
    const cli = (...args: string[]) =>
      runPawl([...args, '--schema', schema.name], {
        cwd: process.cwd(),
        env: { TEMPORAL_ADDRESS: here.stack.temporalAddress, DATABASE_URL: here.stack.databaseUrl },
      })
    const why = /was erased at 20\S+Z by dpo: request 4711/
    for (const list of ['messages', 'checkpoints', 'tools', 'errors', 'pending', 'usage']) {
      expect(await cli(list, id)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^no /), stderr: expect.stringMatching(why) })
    }
    expect(await cli('events', id, '--json')).toMatchObject({ code: 0, stdout: '', stderr: expect.stringMatching(why) })
    expect((await cli('show', id)).stdout).toMatch(/erased +at 20\S+Z by dpo: request 4711/)
    await (await session.send('once more')).result({ timeout: 30_000 })
    expect(await cli('errors', id)).toMatchObject({ stdout: 'no errors\n', stderr: '' })
    await here.pawl.erase(id, { by: 'dpo', force: true })
  })

  it('the status of an erased or closed session that a message reopens says that it waits for a worker', async () => {
    const [erased, ended] = [await closed(), await closed()]
    await here.pawl.erase(erased.id, { by: 'ops' })
    await until('the end is stored', async () => (await store.lists.session(ended.id))?.status === 'closed')
    await worker.stop()
    for (const { session } of [erased, ended]) await session.send('once more')
    const waits = { status: 'loading', run: null, waitsFor: [{ for: 'worker', reason: `a worker on task queue "${here.taskQueue}"` }] }
    expect(await erased.session.status()).toMatchObject({ ...waits, agent: null, stored: null })
    expect(await ended.session.status()).toMatchObject({ ...waits, agent: 'player', stored: { seq: expect.any(Number) } })
    const listed = await until('the overview lists both', async () => {
      const { unopened } = await deploymentStatus(connect())
      return (unopened ?? []).length >= 2 && unopened
    })
    expect(listed.map(({ sessionId }) => sessionId).sort()).toEqual([erased.id, ended.id].sort())
    worker = await here.startWorker({ agents: [player.agent] })
    for (const { id, session } of [erased, ended]) {
      await until('it has answered', async () => (await session.state()).status === 'idle')
      await here.pawl.erase(id, { by: 'ops', force: true })
    }
  })
})

describe('a late flush', () => {
  it('a late flush to an erased session is refused, whichever events it has, and nothing is set aside', async () => {
    const { id } = await closed()
    const entries = await store.entries(id)
    const head = await store.head(id)
    await here.pawl.erase(id, { by: 'ops' })
    const more = logOf([received('late', SECRET)], head!)
    const flushes: [string, LogEntry[]][] = [
      [head!.epoch, entries],
      [head!.epoch, [...entries, ...more]],
      [head!.epoch, more],
      ['another-chain', entries],
      ['another-chain', more],
    ]
    for (const [epoch, log] of flushes) {
      await expect(store.flush(id, epoch, log)).rejects.toMatchObject({ code: 'session_erased' })
    }
    expect(await schema.counts(id)).toEqual({ sessions: 1, audit: 1 })
    expect(await schema.holding(SECRET)).toEqual([])
  })

  it('a late flush is refused although the session was started again, and nothing is set aside', async () => {
    const { id } = await closed()
    const entries = await store.entries(id)
    const head = await store.head(id)
    await here.pawl.erase(id, { by: 'ops' })
    const { session } = player.play(here.pawl, { model: () => 'hello' }, { id, context: {} })
    await (await session.send('again')).result({ timeout: 30_000 })
    await until('the new past is stored', async () => (await store.head(id))?.epoch !== head!.epoch)
    const more = logOf([received('late', SECRET)], head!)
    for (const log of [entries, [...entries, ...more]])
      await expect(store.flush(id, head!.epoch, log)).rejects.toMatchObject({ code: 'session_erased' })
    expect((await schema.counts(id)).stray_events).toBeUndefined()
  })

  it('a late flush does not bring back a session of which the store had nothing yet', async () => {
    const { id } = await closed()
    const entries = await store.entries(id)
    const head = await store.head(id)
    for (const table of Object.keys(await schema.counts(id)))
      await schema.query(`delete from {schema}.${table} where session_id = $1`, [id])
    expect(await here.pawl.erase(id, { by: 'ops' })).toMatchObject({ executions: 1, rows: { events: 0 } })
    expect(await schema.query('select agent, status from {schema}.sessions where session_id = $1', [id])).toEqual([
      { agent: 'player', status: 'closed' },
    ])
    await expect(store.flush(id, head!.epoch, entries)).rejects.toMatchObject({ code: 'session_erased' })
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('a flush that began before the erasure', () => {
  it('a session that was erased again before its first new event was stored stays erased', async () => {
    const { id } = await closed()
    await here.pawl.erase(id, { by: 'ops' })
    const holder = await schema.connection()
    try {
      await holder.query('begin')
      await holder.query(excludeWriters(schemaOf(schema.name)))
      const { session } = player.play(here.pawl, { model: () => SECRET }, { id, context: { user: SECRET } })
      await (await session.send(`again: ${SECRET}`)).result({ timeout: 30_000 })
      await until('its flush waits', async () => (await waitingFlushes()) > 0)
      await here.pawl.erase(id, { by: 'ops', force: true })
    } finally {
      await holder.query('rollback')
      await holder.end()
    }
    await until('its flush has ended', async () => (await waitingFlushes()) === 0 && worker.activities() === 0)
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('sessions that were erased before anything of them was stored', () => {
  it('sessions that were erased before anything of them was stored are listed once each, however small the pages are', async () => {
    const agent = 'unstored'
    const ids = Array.from({ length: 20 }, (_, n) => `unstored-${n}`)
    for (const sessionId of ids)
      await store.upkeep.erase({ sessionId, by: 'ops', executions: [], unknown: { agent, epoch: `chain of ${sessionId}` } })
    const listed: string[] = []
    for (let cursor: string | undefined; ; ) {
      const page = await here.pawl.sessions.list({ agent, limit: 1, ...(cursor !== undefined && { cursor }) })
      listed.push(...page.items.map(({ sessionId }) => sessionId))
      cursor = page.cursor
      if (cursor === undefined || listed.length > ids.length) break
    }
    expect(listed.sort()).toEqual(ids.sort())
  })
})

describe('a large result that arrives after the erasure', () => {
  it.each([
    ['while nothing has happened since', false],
    ['although the session was started again', true],
  ])('a large result that arrives after the erasure is not stored, %s', async (_, startsAgain) => {
    const body = gate()
    const { id, session } = play({
      model: (request) => (saidIn(request).at(-1) === 'again' || answersIn(request) > 0 ? 'done' : [use('put', SECRET)]),
      put: async () => {
        await body.pass()
        return `${SECRET} `.repeat(20_000)
      },
    })
    await session.send(`here is ${SECRET}`)
    await body.reached
    expect(await here.pawl.erase(id, { by: 'dpo', force: true })).toMatchObject({
      leftovers: expect.arrayContaining([expect.stringContaining('backups')]),
    })
    if (startsAgain) await (await here.pawl.session(id, { agent: 'player', context: {} }).send('again')).result({ timeout: 30_000 })
    body.open()
    // The value would be stored before the attempt ends.
    await until('the attempt has ended', () => worker.activities() === 0)
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

it('a large result that arrives while a session without a row is erased is not stored', async () => {
  const id = 'erased-before-its-row'
  // The erasure waits for this row, in a table that comes after that of the large values.
  await schema.query("insert into {schema}.spend (session_id, seq, agent, at, usd) values ($1, 1, 'player', now(), 0)", [id])
  const holder = await schema.connection()
  await holder.query('begin')
  await holder.query(`select from ${schema.name}.spend where session_id = $1 for update`, [id])
  const waiters = async () => Number((await schema.query('select count(*) as n from pg_locks where not granted'))[0]?.n)
  const erased = store.upkeep.erase({ sessionId: id, by: 'ops', executions: ['chain'], unknown: { agent: 'player', epoch: 'chain' } })
  await until('the erasure waits', async () => (await waiters()) > 0)
  const json = JSON.stringify(SECRET)
  const stored = store.blobs.put(id, { ref: { sha256: 'c'.repeat(64), bytes: json.length, preview: '' }, json }, 'chain')
  await Promise.race([stored, until('the large value waits, too', async () => (await waiters()) > 1)])
  await holder.query('commit')
  await Promise.all([erased, stored, holder.end()])
  expect(await schema.counts(id)).not.toHaveProperty('blobs')
})

describe('forks', () => {
  it('an erased session cannot be forked, and the refusal says that it was erased', async () => {
    const { id, session } = await closed()
    await here.pawl.erase(id, { by: 'ops' })
    await expect(session.fork({ checkpoint: 1 })).rejects.toThrow(/erased/)
    await expect(session.fork()).rejects.toThrow(/erased/)
  })

  it('forks keep their copy and are named in the report, as is the session that an erased fork came from', async () => {
    const { id, session } = await closed()
    const fork = await session.fork()
    await until('the fork is stored', async () => (await schema.counts(fork.id)).events === (await fork.state()).seq)
    player.play(here.pawl, {}, { id: fork.id })
    const grandchild = await here.pawl.session(fork.id, { agent: 'player' }).fork()
    await until('its fork is stored', async () => (await schema.counts(grandchild.id)).events === (await grandchild.state()).seq)
    const before = await schema.everything([fork.id, grandchild.id])
    expect((await here.pawl.erase(id, { by: 'ops' })).forks.sort()).toEqual([fork.id, grandchild.id].sort())
    expect(await schema.everything([fork.id, grandchild.id])).toEqual(before)
    expect(await here.pawl.erase(fork.id, { by: 'ops', force: true })).toMatchObject({ parent: id, forks: [grandchild.id] })
    expect(await here.pawl.erase(grandchild.id, { by: 'ops', force: true })).toMatchObject({ parent: fork.id, forks: [] })
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('a fork that has started over', () => {
  it('a fork of an erased fork is named when the original is erased, although the erased fork has started over', async () => {
    const { id, session } = await closed()
    const fork = await session.fork()
    await until('the fork is stored', async () => (await schema.counts(fork.id)).events === (await fork.state()).seq)
    player.play(here.pawl, {}, { id: fork.id })
    const grandchild = await here.pawl.session(fork.id, { agent: 'player' }).fork()
    await until('its fork is stored', async () => (await schema.counts(grandchild.id)).events === (await grandchild.state()).seq)
    await here.pawl.erase(fork.id, { by: 'ops', force: true })
    const again = player.play(here.pawl, {}, { id: fork.id, context: {} })
    await (await again.session.send('again')).result({ timeout: 30_000 })
    await until('it is stored', async () => (await store.lists.session(fork.id))?.erasedAt === null)
    expect((await here.pawl.erase(id, { by: 'ops' })).forks).toEqual([grandchild.id])
    for (const left of [fork.id, grandchild.id]) await here.pawl.erase(left, { by: 'ops', force: true })
  })

  it('a fork that was pruned and has started over is named when the original is erased: its archive has a copy', async () => {
    const { id, session } = await closed()
    const fork = await session.fork()
    await fork.close()
    await here.workflowEnded(fork.id)
    await schema.age([fork.id], 100)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
    const again = player.play(here.pawl, {}, { id: fork.id, context: {} })
    await (await again.session.send('again')).result({ timeout: 30_000 })
    await until('it is stored', async () => (await store.lists.session(fork.id))?.status === 'idle')
    expect((await here.pawl.erase(id, { by: 'ops' })).forks).toEqual([fork.id])
    await here.pawl.erase(fork.id, { by: 'ops', force: true })
  })
})

describe('a fork that is just beginning', () => {
  it('a fork that has copied the erased past, but has no event of its own yet, is named in the report', async () => {
    const { id } = await closed()
    await store.flush(`${id}-copy`, 'another', await store.entries(id, { after: 0 }), { inherited: id })
    expect((await here.pawl.erase(id, { by: 'ops' })).forks).toEqual([`${id}-copy`])
    expect((await store.upkeep.erase({ sessionId: `${id}-copy`, by: 'ops', executions: [] }))?.parent).toBe(id)
  })
})

describe('a session that is erased while a fork copies it', () => {
  it('a fork whose original is erased while it is being copied is refused, and names the copy that is left to erase', async () => {
    const { id } = await closed()
    const head = (await store.head(id)) ?? expect.fail('no head')
    let reads = 0
    /** The first read folds the past, the second one copies it, page by page. */
    const erasedMeanwhile: Store = {
      ...store,
      async entries(from, options) {
        if (from === id && ++reads === 3) await here.pawl.erase(id, { by: 'ops' })
        const page = await store.entries(from, options)
        return reads === 2 ? page.slice(0, 5) : page
      },
    }
    const fork = { from: id, seq: head.seq, digest: head.digest, keys: 'carried' as const }
    const copied = await copyPast(erasedMeanwhile, here.temporal, `${id}-torn`, 'chain', fork)
    expect(copied).toMatchObject({ kind: 'refused', code: 'checkpoint_not_found', reason: expect.stringContaining(`"${id}-torn"`) })
    const [audit] = await schema.query('select details from {schema}.audit where session_id = $1', [id])
    expect(audit?.details).toMatchObject({ forks: [`${id}-torn`] })
    await store.upkeep.erase({ sessionId: `${id}-torn`, by: 'ops', executions: [] })
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('a session that is erased between the reads and the writes of a fork', () => {
  it('a fork whose original is erased before the copy is written is refused, and leaves no copy', async () => {
    const { id, session } = await talked()
    await (await session.send(`${SECRET} `.repeat(10_000))).result({ timeout: 30_000 })
    await session.close()
    await here.workflowEnded(id)
    const head = (await store.head(id)) ?? expect.fail('no head')
    const erasedMeanwhile: Store = {
      ...store,
      async flush(copy, epoch, entries, options) {
        await here.pawl.erase(id, { by: 'ops' })
        return store.flush(copy, epoch, entries, options)
      },
    }
    const fork = { from: id, seq: head.seq, digest: head.digest, keys: 'carried' as const }
    expect(await copyPast(erasedMeanwhile, here.temporal, `${id}-late`, 'chain', fork)).toMatchObject({
      kind: 'refused',
      code: 'checkpoint_not_found',
    })
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('a fork that is erased while it copies its original', () => {
  it('a fork that is erased while its large values are being copied keeps none of them', async () => {
    const { id, session } = await talked()
    await (await session.send(`${SECRET} `.repeat(10_000))).result({ timeout: 30_000 })
    await session.close()
    await here.workflowEnded(id)
    const head = (await store.head(id)) ?? expect.fail('no head')
    const copy = `${id}-gone`
    let copies = 0
    const erasedMeanwhile: Store = {
      ...store,
      blobs: {
        ...store.blobs,
        async copy(...values) {
          copies += values[2].length
          await store.upkeep.erase({ sessionId: copy, by: 'ops', executions: ['chain'] })
          return store.blobs.copy(...values)
        },
      },
    }
    await copyPast(erasedMeanwhile, here.temporal, copy, 'chain', { from: id, seq: head.seq, digest: head.digest, keys: 'carried' })
    expect(copies).toBeGreaterThan(0)
    expect((await here.pawl.erase(id, { by: 'ops' })).forks).toEqual([])
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('a large message to a session that does not exist', () => {
  it('a large message that no session can receive is refused, and its content is not stored', async () => {
    const nobody = 'nobody-to-receive'
    await expect(here.pawl.session(nobody).send(`${SECRET} `.repeat(10_000))).rejects.toMatchObject({ code: 'no_agent' })
    expect(await schema.counts(nobody)).toEqual({})
  })

  it('a large value that has no session is erased', async () => {
    const json = JSON.stringify(SECRET)
    await store.blobs.put('no-session', { ref: { sha256: 'a'.repeat(64), bytes: json.length, preview: '' }, json })
    expect(await here.pawl.erase('no-session', { by: 'ops' })).toMatchObject({ executions: 0, rows: { blobs: 1 } })
    expect(await schema.holding(SECRET)).toEqual([])
    await expect(here.pawl.erase('no-session', { by: 'ops' })).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('a large value for an erased session whose message was never sent is pruned after 30 days', async () => {
    const { id } = await closed()
    await here.pawl.erase(id, { by: 'ops' })
    const json = JSON.stringify(SECRET)
    await store.blobs.put(id, { ref: { sha256: 'b'.repeat(64), bytes: json.length, preview: '' }, json })
    await here.pawl.prune({ olderThan: '90d' })
    expect(await schema.holding(SECRET)).not.toEqual([])
    await schema.query(`update {schema}.blobs set created_at = now() - interval '31 days' where session_id = $1`, [id])
    await here.pawl.prune({ olderThan: '90d' })
    expect(await schema.holding(SECRET)).toEqual([])
  })
})

describe('bad input', () => {
  it('a session that never existed is not found, and leaves no trace', async () => {
    await expect(here.pawl.erase('nobody-to-erase', { by: 'ops' })).rejects.toMatchObject({ code: 'session_not_found' })
    expect(await schema.counts('nobody-to-erase')).toEqual({})
  })

  it.each([
    ['not an id!', { by: 'ops' }, 'invalid_session_id'],
    ['some-session', {} as { by: string }, 'invalid_option'],
    ['some-session', { by: ' ' }, 'invalid_option'],
    ['some-session', { by: 'ops', reason: 'x'.repeat(1_001) }, 'invalid_option'],
  ])('pawl.erase(%j, %j) is rejected as %s', async (id, options, code) => {
    await expect(here.pawl.erase(id, options)).rejects.toMatchObject({ code })
  })
})

describe('pawl erase', () => {
  const run = (...args: string[]) =>
    runPawl(['erase', ...args, '--schema', schema.name], {
      cwd: process.cwd(),
      env: {
        TEMPORAL_ADDRESS: here.stack.temporalAddress,
        TEMPORAL_NAMESPACE: here.stack.namespace,
        DATABASE_URL: here.stack.databaseUrl,
      },
    })

  it('pawl erase erases, refuses, and reports to people and programs', async () => {
    const { id } = await talked()
    expect(await run(id)).toMatchObject({ code: 1, stderr: expect.stringContaining('--by') })
    expect(await run(id, '--by', 'ops')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^session_open: /) })
    const forced = await run(id, '--by', 'ops', '--reason', 'asked to', '--force')
    expect(forced).toMatchObject({ code: 0, stderr: '' })
    expect(forced.stdout).toContain(`session ${id} erased; it was open and has been terminated`)
    const again = await run(id, '--by', 'ops', '--json')
    expect(JSON.parse(again.stdout)).toMatchObject({ event: 'erased', sessionId: id, terminated: false })
    expect(await run('nobody-to-erase', '--by', 'ops')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^session_not_found: /) })
    expect(await schema.holding(SECRET)).toEqual([])
  })
})
