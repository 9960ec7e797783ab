// Rebuilding restores the rows of sessions from everything that Temporal's histories still have, and names what they no longer have.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { WorkflowNotFoundError } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { listExecutions } from '../../src/client/admin/executions.ts'
import { rebuilder } from '../../src/client/admin/rebuild.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { answersIn, type Played, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { runPawl } from './cli/processes.ts'

/** Signals at a time. */
const BATCH = size(25, 50)
/** Events of history at which sessions continue as new. */
const DUE = size(130, 1_000)

/** What a session's row says about the session as a whole. */
const NUMBERS =
  'session_id agent status epoch run turns input_tokens output_tokens flushed_seq digest checkpoint context tags parent forked_seq created_at updated_at'.split(
    ' ',
  )

let schema: OwnSchema
let here: Deployment
let player: Stage
let store: Store
let worker: RunningWorker

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  schema = await ownSchema(databaseUrl, 'rebuild')
  here = await deploy({ schema: schema.name, history: { events: DUE } })
  player = stage()
  store = openStore({ postgres: databaseUrl, schema: schema.name })
  worker = await here.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  await here?.stop()
  await store?.close()
  await schema?.close()
})

const handleOf = (id: string, executionId?: string) => here.temporal.workflow.getHandle(`pawl:${id}`, executionId)

/** A session whose runs call tools, one of which fails at first. */
function play(): Played {
  return player.play(here.pawl, {
    model: (request) => (answersIn(request) % 2 === 0 ? [use('put', `thing ${answersIn(request)}`), use('look', 'at it')] : 'an answer'),
    look(_input, ctx) {
      if (ctx.attempt === 1) throw new Error('fails once')
      return { seen: true, deep: [1, { two: null }] }
    },
  })
}

async function say({ id, session }: Played, text: string): Promise<void> {
  await (await session.send(text)).result({ timeout: 30_000 })
  await stored(id)
}

/** Waits until the store has everything that the workflow has, and no run is in progress. */
async function stored(id: string): Promise<void> {
  await until('everything is stored', async () => {
    const [state, row] = [await handleOf(id).query<{ seq: number; status: string }>('state'), await store.lists.session(id)]
    return row?.flushedSeq === state.seq && state.status !== 'running'
  })
}

async function close(played: Played): Promise<void> {
  await played.session.close()
  await here.workflowEnded(played.id)
}

/** Makes the idle session continue as new by sending signals that mean nothing, a few at a time for the sake of slow machines. */
async function continueAsNew(id: string): Promise<void> {
  const seqNow = async (): Promise<number> => (await handleOf(id).query<{ seq: number }>('state')).seq
  const before = (await handleOf(id).describe()).runId
  while ((await handleOf(id).describe()).runId === before) {
    const seq = await seqNow()
    await Promise.all(Array.from({ length: BATCH }, () => handleOf(id).signal('nonsense', 1)))
    await until('they are accepted', async () => (await seqNow()) >= seq + BATCH, 40_000)
  }
  await stored(id)
}

/**
 * Ids of the session's executions, newest first, once visibility knows `n` of them: the server writes it after the fact. Signals that
 * arrive while the session continues as new may make it do so once more.
 */
function executionsOf(id: string, n: number): Promise<string[]> {
  return until(
    `${n} executions are visible`,
    async () => {
      const found: { runId: string; startTime: Date }[] = []
      for await (const info of here.temporal.workflow.list({ query: `WorkflowId = 'pawl:${id}'` })) found.push(info)
      if (found.length < n) throw new Error(`${found.length} are visible`)
      return found.sort((a, b) => b.startTime.getTime() - a.startTime.getTime()).map(({ runId }) => runId)
    },
    60_000,
  )
}

async function deleteExecution(id: string, runId: string): Promise<void> {
  await here.temporal.connection.workflowService.deleteWorkflowExecution({
    namespace: here.stack.namespace,
    workflowExecution: { workflowId: `pawl:${id}`, runId },
  })
  // Temporal deletes an execution that has just closed only half a minute later.
  const isGone = async (): Promise<boolean> => {
    try {
      await handleOf(id, runId).describe()
      return false
    } catch (error) {
      return error instanceof WorkflowNotFoundError
    }
  }
  await until('Temporal has deleted it', isGone, 90_000)
}

/** The session's rows without those that report a late flush: next to the rebuild, flushes did come late. */
async function told(id: string): Promise<Record<string, unknown[]>> {
  const rows = await schema.everything([id])
  return { ...rows, errors: (rows.errors ?? []).filter((row) => (row as { context: string }).context !== 'checkpoint') }
}

/** Rebuilds a session in a process of its own, which is killed when it is about to copy large values. */
async function killedRebuild(id: string): Promise<string | null> {
  const { temporalAddress: address, namespace, databaseUrl: postgres } = here.stack
  const options = { temporal: { address, namespace }, postgres, schema: schema.name, taskQueue: here.taskQueue }
  const code = `
    import pg from 'pg'
    import { Pawl } from 'pawl/client'
    const { query } = pg.Client.prototype
    pg.Client.prototype.query = function (what, ...more) {
      const text = typeof what === 'string' ? what : what.text
      if (/insert into \\S*blobs/.test(text)) process.kill(process.pid, 'SIGKILL')
      return query.call(this, what, ...more)
    }
    const pawl = await Pawl.connect(${JSON.stringify(options)})
    await pawl.rebuild({ session: ${JSON.stringify(id)} })
  `
  const rebuilding = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'ignore', 'inherit'] })
  const [, signal] = (await once(rebuilding, 'exit')) as [number | null, string | null]
  return signal
}

/** Drops the schema and migrates it again. */
async function wipe(): Promise<void> {
  await schema.drop()
  // The first call finds the tables missing, and the next one creates them.
  await store.head('anybody').catch(() => undefined)
  expect(await store.head('anybody')).toBeNull()
}

/** As an old backup without the session. */
async function loseRowsOf(id: string): Promise<void> {
  for (const table of Object.keys(await schema.counts(id))) await schema.query(`delete from {schema}.${table} where session_id = $1`, [id])
}

describe('after the schema was dropped', () => {
  let long: Played
  let resumed: Played
  let before: Record<string, unknown[]>
  let ids: string[]

  beforeAll(async () => {
    long = play()
    await say(long, 'one')
    await continueAsNew(long.id)
    await say(long, 'two')
    await continueAsNew(long.id)
    await say(long, 'three')
    resumed = play()
    await say(resumed, 'one')
    await close(resumed)
    await say(resumed, 'two')
    await close(resumed)
    ids = [long.id, resumed.id]
    await executionsOf(long.id, 3)
    await executionsOf(resumed.id, 2)
    before = await schema.everything(ids)
    expect(before.events!.length).toBeGreaterThan(DUE)
    for (const table of ['messages', 'tool_calls', 'errors', 'token_usage', 'checkpoints']) expect(before[table]!.length).toBeGreaterThan(0)
  })

  it('a rebuild restores all rows of open and closed sessions, several executions deep', async () => {
    await wipe()
    const seen: string[] = []
    const report = await here.pawl.rebuild({ by: 'ops', onSession: ({ sessionId }) => seen.push(sessionId) })
    expect(report).toMatchObject({ partial: 0, failed: 0, incomplete: [], stopped: false })
    expect(report.events).toBe(before.events!.length)
    expect(seen.sort()).toEqual([...ids].sort())
    expect(await schema.everything(ids)).toEqual(before)
    expect(await schema.query('select action, by from {schema}.audit')).toEqual([{ action: 'rebuild', by: 'ops' }])
  })

  it('a second rebuild finds nothing to do and changes nothing', async () => {
    const report = await here.pawl.rebuild()
    expect(report).toMatchObject({ sessions: 2, complete: 2, restored: 0, events: 0 })
    expect(await schema.everything(ids)).toEqual(before)
  })

  it('a single session can be restored by its id', async () => {
    await wipe()
    const report = await here.pawl.rebuild({ session: resumed.id })
    expect(report).toMatchObject({ sessions: 1, restored: 1, failed: 0 })
    expect(await store.head(long.id)).toBeNull()
    expect(await schema.everything([resumed.id])).toEqual(
      Object.fromEntries(
        Object.entries(before).map(([table, rows]) => [
          table,
          rows.filter((row) => (row as { session_id: string }).session_id === resumed.id),
        ]),
      ),
    )
    await here.pawl.rebuild()
    expect(await schema.everything(ids)).toEqual(before)
  })

  it('a rebuild can run next to sessions that receive messages, and both write the same rows', async () => {
    await wipe()
    const [report] = await Promise.all([
      here.pawl.rebuild(),
      (async () => {
        for (const text of ['four', 'five', 'six']) await (await long.session.send(text)).result({ timeout: 30_000 })
      })(),
    ])
    expect(report.failed).toBe(0)
    await stored(long.id)
    const events = await store.events(long.id)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
    const rows = await told(long.id)
    await wipe()
    await here.pawl.rebuild()
    expect(await told(long.id)).toEqual(rows)
  })

  it('an open session that receives a message restores its own chain by itself; one that was resumed needs the rebuild', async () => {
    const idle = play()
    await say(idle, 'one')
    await say(resumed, 'three')
    await wipe()
    await (await idle.session.send('two')).result({ timeout: 30_000 })
    await stored(idle.id)
    expect((await store.events(idle.id))[0]).toMatchObject({ seq: 1, type: 'session_started' })
    expect(await store.head(resumed.id)).toBeNull()
    expect(await here.pawl.rebuild({ session: resumed.id })).toMatchObject({ restored: 1 })
    expect((await store.events(resumed.id))[0]).toMatchObject({ seq: 1, type: 'session_started' })
  })
})

describe('a rebuild that is stopped by an error', () => {
  it('a rebuild that a callback stops is recorded with what it has restored', async () => {
    const played = play()
    await say(played, 'one')
    await executionsOf(played.id, 1)
    for (const table of Object.keys(await schema.counts(played.id)))
      await schema.query(`delete from {schema}.${table} where session_id = $1`, [played.id])
    const by = `ops-${played.id}`
    const stop = (): void => {
      throw new Error('enough')
    }
    await expect(here.pawl.rebuild({ session: played.id, by, onSession: stop })).rejects.toThrow('enough')
    expect(await store.head(played.id)).not.toBeNull()
    expect(await schema.query('select details from {schema}.audit where by = $1', [by])).toMatchObject([
      { details: { session: played.id, restored: 1, stopped: true } },
    ])
  })
})

describe('a fork', () => {
  it('a fork is restored with its own copy of what it inherited, even if it alone is rebuilt', async () => {
    const source = play()
    await say(source, 'one')
    await say(source, 'two')
    const forked = await source.session.fork({ run: 2 })
    const fork = player.play(here.pawl, { model: () => 'of the fork' }, { id: forked.id })
    await say(fork, 'another two')
    await close(source)
    await executionsOf(fork.id, 1)
    await executionsOf(source.id, 1)
    const before = await schema.everything([source.id, fork.id])
    await wipe()
    expect(await here.pawl.rebuild({ session: fork.id })).toMatchObject({ sessions: 1, restored: 1, failed: 0 })
    expect(await schema.everything([source.id, fork.id])).toEqual(before)
  })

  it('a fork that an old backup lacks gets the large values that it inherited from its original again', async () => {
    const source = play()
    const large = 'B'.repeat(200_000)
    await say(source, large)
    const fork = player.play(here.pawl, { model: () => 'of the fork' }, { id: (await source.session.fork()).id })
    await say(fork, 'and more')
    await executionsOf(fork.id, 1)
    const said = async () => (await store.messages(fork.id)).map(({ content }) => content)
    const before = await said()
    expect(before[0]).toBe(large)
    await loseRowsOf(fork.id)
    expect(await here.pawl.rebuild({ session: fork.id })).toMatchObject({ sessions: 1, restored: 1, partial: 0, failed: 0 })
    expect(await said()).toEqual(before)
  })

  it('a fork gets its large values although the rebuild that began to copy them was killed', async () => {
    const source = play()
    const large = 'K'.repeat(200_000)
    await say(source, large)
    const fork = player.play(here.pawl, { model: () => 'of the fork' }, { id: (await source.session.fork()).id })
    await say(fork, 'and more')
    await executionsOf(fork.id, 1)
    await loseRowsOf(fork.id)
    expect(await killedRebuild(fork.id)).toBe('SIGKILL')
    expect((await store.head(fork.id))?.seq).toBeGreaterThan(0)
    expect(await here.pawl.rebuild({ session: fork.id })).toMatchObject({ partial: 0, failed: 0 })
    expect((await store.messages(fork.id))[0]?.content === large).toBe(true)
  })

  it('a fork whose original is erased while a rebuild copies it is reported as failed, with the reason', async () => {
    const source = play()
    await say(source, 'one')
    await say(source, 'two')
    const forked = await source.session.fork({ run: 2 })
    await say(player.play(here.pawl, { model: () => 'of the fork' }, { id: forked.id }), 'another two')
    await close(source)
    await executionsOf(forked.id, 1)
    await executionsOf(source.id, 1)
    await wipe()
    await here.pawl.rebuild({ session: source.id })
    const erasedMeanwhile: Store = {
      ...store,
      async flush(id, ...rest) {
        if (id === forked.id) await here.pawl.erase(source.id, { by: 'ops' })
        return store.flush(id, ...rest)
      },
    }
    const { restore } = rebuilder(here.temporal, erasedMeanwhile, (sessionId) => listExecutions(here.temporal, { sessionId }))
    const message = expect.stringContaining(`"${source.id}"`)
    expect(await restore(forked.id)).toMatchObject({ outcome: 'failed', events: 0, upTo: 0, error: { code: 'history_gone', message } })
    expect(await store.head(forked.id)).toBeNull()
  })
})

// Temporal takes a while to delete what has just closed.
describe('what history no longer has', { timeout: 300_000 }, () => {
  it('a rebuild reports events that history no longer has; the session continues from the oldest execution’s snapshot', async () => {
    const played = play()
    await say(played, 'one')
    await continueAsNew(played.id)
    await say(played, 'two')
    const [, oldest] = await executionsOf(played.id, 2)
    const base = (await handleOf(played.id).query<{ base: { seq: number } }>('events')).base.seq
    const [row] = await schema.query('select * from {schema}.sessions where session_id = $1', [played.id])
    const events = await store.events(played.id, { after: base })
    await deleteExecution(played.id, oldest!)
    await wipe()

    const report = await here.pawl.rebuild({ session: played.id })
    expect(report).toMatchObject({ partial: 1, failed: 0 })
    expect(report.incomplete).toMatchObject([{ sessionId: played.id, missing: [{ fromSeq: 1, toSeq: base }], events: events.length }])
    expect(await store.events(played.id)).toEqual(events)
    const [restored] = await schema.query('select * from {schema}.sessions where session_id = $1', [played.id])
    for (const column of NUMBERS) {
      expect({ [column]: restored?.[column] }).toEqual({ [column]: row?.[column] })
    }
    expect(restored).toMatchObject({ origin_seq: String(base) })

    // A second rebuild finds nothing more, and reports the same again.
    expect((await here.pawl.rebuild({ session: played.id })).incomplete).toMatchObject([
      { missing: [{ fromSeq: 1, toSeq: base }], events: 0 },
    ])
    await say(played, 'three')
    expect((await store.lists.session(played.id))?.run).toBe(3)
  })

  it('a rebuild reports missing events from before a resume or a fork; both sessions continue from what they had read', async () => {
    const source = play()
    await say(source, 'one')
    const fork = player.play(here.pawl, { model: () => 'of the fork' }, { id: (await source.session.fork()).id })
    await say(fork, 'two of the fork')
    await close(source)
    await say(source, 'two')
    const [, first] = await executionsOf(source.id, 2)
    await executionsOf(fork.id, 1)
    const ids = [source.id, fork.id]
    const rowsOf = () =>
      schema.query(`select ${NUMBERS.join(', ')} from {schema}.sessions where session_id = any($1) order by session_id`, [ids])
    const rows = await rowsOf()
    const bases = await Promise.all(ids.map(async (id) => (await handleOf(id).query<{ base: { seq: number } }>('events')).base.seq))
    const events = await Promise.all(ids.map((id, index) => store.events(id, { after: bases[index]! })))
    await deleteExecution(source.id, first!)
    await wipe()

    for (const [index, id] of ids.entries()) {
      const { incomplete } = await here.pawl.rebuild({ session: id })
      expect(incomplete).toMatchObject([{ outcome: 'partial', missing: [{ fromSeq: 1, toSeq: bases[index] }] }])
      expect(await store.events(id)).toEqual(events[index])
    }
    expect(await rowsOf()).toEqual(rows)
    await say(fork, 'three of the fork')
  })

  it('what history no longer has includes large values, which only the store had; they are reported with their events', async () => {
    const played = play()
    await say(played, 'B'.repeat(200_000))
    const [blob] = await schema.query('select sha256, bytes::int as bytes from {schema}.blobs where session_id = $1', [played.id])
    const [message] = (await store.events(played.id)).filter(({ type }) => type === 'message_received')
    await wipe()
    const missingValues = [{ seq: message?.seq, sha256: blob?.sha256, bytes: blob?.bytes }]
    // The second one has no event to restore, and the values are missing as before.
    for (const _ of ['first', 'second']) {
      const report = await here.pawl.rebuild({ session: played.id })
      expect(report.incomplete).toMatchObject([{ outcome: 'partial', missing: [], missingValues }])
    }
    await close(played)
    expect(await here.pawl.rebuild({ session: played.id })).toMatchObject({ partial: 1, incomplete: [{ missingValues }] })
  })

  it('a rebuild that would leave a hole between an old backup and the oldest execution fails and changes nothing', async () => {
    const played = play()
    await say(played, 'one')
    const early = await store.entries(played.id, { limit: 3 })
    const { epoch } = (await store.head(played.id))!
    await continueAsNew(played.id)
    const [, oldest] = await executionsOf(played.id, 2)
    await deleteExecution(played.id, oldest!)
    await wipe()
    await store.flush(played.id, epoch, early)
    const before = await schema.everything([played.id])
    const { incomplete } = await here.pawl.rebuild({ session: played.id })
    expect(incomplete).toMatchObject([{ outcome: 'failed', upTo: 3, missing: [{ fromSeq: 4 }], error: { code: 'history_gone' } }])
    expect(await schema.everything([played.id])).toEqual(before)
  })
})

describe('a rebuild that cannot be done', () => {
  it('a rebuild that cannot be done says that no worker answers, and restores everything once one does', async () => {
    const played = play()
    await say(played, 'one')
    await executionsOf(played.id, 1)
    await worker.stop()
    await wipe()
    const { incomplete } = await here.pawl.rebuild({ session: played.id })
    expect(incomplete).toMatchObject([{ outcome: 'failed', error: { code: 'no_worker' } }])
    worker = await here.startWorker({ agents: [player.agent] })
    expect(await here.pawl.rebuild({ session: played.id })).toMatchObject({ restored: 1 })
  })

  it('a rebuild is refused with a reason for an unknown session, a bad id, and a client without a store', async () => {
    await expect(here.pawl.rebuild({ session: 'nobody-to-rebuild' })).rejects.toMatchObject({ code: 'session_not_found' })
    await expect(here.pawl.rebuild({ session: 'no id!' })).rejects.toMatchObject({ code: 'invalid_session_id' })
    await expect(here.pawl.rebuild({ by: '' })).rejects.toMatchObject({ code: 'invalid_option' })
    const without = await here.connect({ postgres: false })
    await expect(without.rebuild()).rejects.toMatchObject({ code: 'no_store' })
  })

  it('a rebuild does not find a session that a client only asked for', async () => {
    await expect(here.pawl.session('only-asked-for').resume()).rejects.toMatchObject({ code: 'session_not_found' })
    await expect(here.pawl.rebuild({ session: 'only-asked-for' })).rejects.toMatchObject({ code: 'session_not_found' })
    const sessions: string[] = []
    await here.pawl.rebuild({ onSession: ({ sessionId }) => sessions.push(sessionId) })
    expect(sessions).not.toContain('only-asked-for')
  })

  it('a rebuild that cannot be done leaves an erased session erased', async () => {
    const played = play()
    await say(played, 'one')
    await here.pawl.erase(played.id, { by: 'ops', force: true })
    // Its history may still be there for a moment.
    await here.pawl.rebuild({ session: played.id }).catch(() => undefined)
    expect(await schema.counts(played.id)).toEqual({ sessions: 1, audit: 1 })
  })
})

describe('pawl rebuild', () => {
  const run = (...args: string[]) => runOn(schema.name, ...args)
  const runOn = (name: string, ...args: string[]) =>
    runPawl(['rebuild', ...args, '--schema', name, '--task-queue', here.taskQueue], {
      cwd: process.cwd(),
      env: {
        TEMPORAL_ADDRESS: here.stack.temporalAddress,
        TEMPORAL_NAMESPACE: here.stack.namespace,
        DATABASE_URL: here.stack.databaseUrl,
      },
    })

  it('pawl rebuild without tables says once what to run, however many sessions there are', async () => {
    for (const played of [play(), play()]) {
      await say(played, 'one')
      await executionsOf(played.id, 1)
    }
    const { code, stdout, stderr } = await runOn(`${schema.name}_unmigrated`)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^schema_behind: .*pawl migrate/)
    expect(stderr.match(/schema_behind/g)).toHaveLength(1)
  })

  it('pawl rebuild without a worker explains that once', async () => {
    await worker.stop()
    const { code, stdout } = await run()
    worker = await here.startWorker({ agents: [player.agent] })
    expect(code).toBe(1)
    expect(stdout.match(/no_worker/g)!.length).toBeGreaterThan(1)
    expect(stdout.match(/no_worker: No worker on task queue/g)).toHaveLength(1)
  })

  it('pawl rebuild restores, and reports as text and as JSON', async () => {
    const played = play()
    await say(played, 'one')
    await executionsOf(played.id, 1)
    await wipe()
    const human = await run(played.id, '--by', 'ops')
    expect(human).toMatchObject({ code: 0, stderr: '' })
    expect(human.stdout).toContain('restore them from a backup: blobs, slices, completed_keys,')
    expect(human.stdout).toMatch(new RegExp(`^restored ${played.id}  \\d+ events restored, stored up to \\d+\\n1 session: 1 restored`))
    const again = await run(played.id, '--json')
    const lines = again.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object)
    expect(lines).toMatchObject([
      { event: 'session', sessionId: played.id, outcome: 'complete' },
      { event: 'rebuilt', sessions: 1, complete: 1, events: 0 },
    ])
    expect(await run('nobody-to-rebuild')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^session_not_found: /) })
  })
})
