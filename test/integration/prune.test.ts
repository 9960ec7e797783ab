// Pruning: closed sessions move their messages to the archive and keep their numbers, and no other session has to wait for it.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { openStore, type Store } from '../../src/store/index.ts'
import { excludeWriters } from '../../src/store/postgres/commit-order.ts'
import { schemaOf } from '../../src/store/postgres/schema.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { shortHash } from '../../src/session/digest.ts'
import { workflowIdOf } from '../../src/session/protocol/protocol.ts'
import type { EventBody } from '../../src/session/events.ts'
import { fold } from '../../src/session/fold/fold.ts'
import type { SessionState } from '../../src/session/state.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { answersIn, type Played, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { pawl, runPawl } from './cli/processes.ts'
import { EPOCH, eventsOf, logOf, received, started } from './store/sessions.ts'
import type { PruneOptions } from '../../src/client/admin/upkeep-options.ts'
import { openQueries } from '../../src/client/queries/queries.ts'

/** How an effect was resolved. */
const SETTLE = {
  index: 0,
  tool: 'settle',
  effect: 'external',
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1_000,
  retry: { maxRetries: 3, baseDelayMs: 500 },
  verify: false,
} as const
const UNDONE = { callId: 't_1_2_0', tool: 'settle', status: 'completed' } as const

const BIG = 'b'.repeat(200_000)

let schema: OwnSchema
let here: Deployment
let player: Stage
let store: Store
let worker: RunningWorker

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  schema = await ownSchema(databaseUrl, 'prune')
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

/** A session with one run for each message, each with one tool call. */
async function talked(...messages: string[]): Promise<Played> {
  const played = player.play(here.pawl, {
    model: (request) => (answersIn(request) % 2 === 0 ? [use('put', 'it')] : `answer to ${saidIn(request).at(-1)?.slice(0, 20)}`),
    put: ({ what }) => (what === 'it' ? 'done' : what),
  })
  for (const text of messages) await (await played.session.send(text)).result({ timeout: 30_000 })
  await until('its rows are there', async () => (await store.lists.session(played.id))?.status === 'idle')
  return played
}

async function closed(...messages: string[]): Promise<Played> {
  const played = await talked(...messages)
  await close(played)
  return played
}

async function close({ id, session }: Pick<Played, 'id' | 'session'>): Promise<void> {
  await session.close()
  await here.workflowEnded(id)
}

describe('a session that closed long ago', () => {
  it('a session that closed long ago moves its messages to the archive and keeps a row with its numbers', async () => {
    const { id } = await closed('one', 'two')
    const messages = await schema.query(
      'select seq, message_id, run, turn, role, kind, content, metadata, position, ordinal, at, call_ids from {schema}.messages where session_id = $1 order by seq',
      [id],
    )
    const [row] = await schema.query('select * from {schema}.sessions where session_id = $1', [id])
    await schema.age([id], 100)
    const report = await here.pawl.prune({ olderThan: '90d', by: 'ops' })
    expect(report).toMatchObject({ sessions: 1, rows: { archived_messages: messages.length }, stopped: false })
    const archived = await schema.query(
      'select seq, message_id, run, turn, role, kind, content, metadata, position, ordinal, at, call_ids from {schema}.archived_messages where session_id = $1 order by seq',
      [id],
    )
    expect(archived).toEqual(messages)
    expect(
      await schema.query('select distinct why, epoch, archived_seq from {schema}.archived_messages where session_id = $1', [id]),
    ).toEqual([{ why: 'pruned', epoch: row?.epoch, archived_seq: row?.flushed_seq }])
    expect(await schema.counts(id)).toEqual({ sessions: 1, archived_messages: messages.length, completed_keys: 2 })
    const [tombstone] = await schema.query('select * from {schema}.sessions where session_id = $1', [id])
    expect(tombstone).toMatchObject({
      status: 'closed',
      run: 2,
      turns: row?.turns,
      input_tokens: row?.input_tokens,
      checkpoint: row?.checkpoint,
      flushed_seq: row?.flushed_seq,
      digest: row?.digest,
      pruned_at: expect.any(Date),
    })
    expect(row?.checkpoint).toBeGreaterThan(0)
    const audit = await schema.query(`select by, details from {schema}.audit where action = 'prune' and strpos(details::text, $1) > 0`, [
      id,
    ])
    expect(audit).toEqual([{ by: 'ops', details: expect.objectContaining({ sessions: [id] }) }])
  })

  it('a session that closed long ago leaves no notification that its webhook has given up', async () => {
    const { id } = await closed('one')
    await schema.query(
      `insert into {schema}.webhooks (id, url, secret, types, with_content) values ('wh_gone', 'https://example.com', 'whsec_', '{}', false)`,
    )
    await schema.query(
      `insert into {schema}.webhook_deliveries (webhook_id, session_id, seq, agent, type, happened_at, facts, given_up_at)
       values ('wh_gone', $1, 9, 'player', 'run.completed', now(), '{}', now())`,
      [id],
    )
    await schema.age([id], 100)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1, rows: { webhook_deliveries: 1 } })
    expect(await schema.counts(id)).not.toHaveProperty('webhook_deliveries')
  })

  it('a session that closed long ago, and still has to deliver a message, is pruned after that only', async () => {
    const { id, session } = await talked('one')
    await session.send('happy birthday', { messageId: 'later', delay: '400d' })
    const kept = async () => (await store.lists.scheduled(id)).map(({ messageId }) => messageId)
    await until('it is stored', async () => (await kept()).length === 1)
    await here.temporal.workflow.getHandle(workflowIdOf(id)).cancel()
    await here.workflowEnded(id)
    await schema.age([id], 100)
    expect(await here.pawl.prune({ olderThan: '90d', dryRun: true })).toMatchObject({ sessions: 0 })
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 0 })
    expect(await kept()).toEqual(['later'])
    await session.unschedule('later')
    await close({ id, session })
    await schema.age([id], 100)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
  })

  it('a session that closed long ago is left alone by a second pruning', async () => {
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 0, rows: {} })
  })

  it('a session that closed long ago continues with its numbers when it receives a message, and can be pruned again', async () => {
    const played = await closed('one', 'two')
    await schema.age([played.id], 100)
    await here.pawl.prune({ olderThan: '90d' })
    const [before] = await schema.query('select flushed_seq, checkpoint from {schema}.sessions where session_id = $1', [played.id])
    const result = await (await played.session.send('three')).result({ timeout: 30_000 })
    expect(result.run).toBe(3)
    expect(saidIn(played.requests.at(-1)!)).toEqual(['three'])
    await until('its rows are there', async () => (await store.lists.session(played.id))?.status === 'idle')
    const events = await store.events(played.id)
    expect(events[0]).toMatchObject({ type: 'session_started', seq: Number(before?.flushed_seq) + 1, after: { run: 2 } })
    const [after] = await schema.query('select checkpoint, pruned_at from {schema}.sessions where session_id = $1', [played.id])
    expect(Number(after?.checkpoint)).toBeGreaterThan(Number(before?.checkpoint))
    await close(played)
    await schema.age([played.id], 100)
    // The session was aged, but its earlier pruning was not: move that back, too, so that it comes before the session's last update.
    await schema.query(`update {schema}.sessions set pruned_at = pruned_at - interval '200 days' where session_id = $1`, [played.id])
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
    const said = await schema.query(
      `select content #>> '{}' as text from {schema}.archived_messages where session_id = $1 and kind = 'user' order by seq`,
      [played.id],
    )
    expect(said.map(({ text }) => text)).toEqual(['one', 'two', 'three'])
  })

  it('a session that closed long ago can no longer be forked, and the attempt changes nothing', async () => {
    const { id, session } = await closed('one')
    await schema.age([id], 100)
    await here.pawl.prune({ olderThan: '90d' })
    const before = await schema.everything()
    await expect(session.fork({ checkpoint: 1 })).rejects.toMatchObject({
      code: expect.stringMatching(/^(checkpoint_not_found|session_pruned)$/),
    })
    expect(await schema.everything()).toEqual(before)
  })
})

describe('pruning keeps', () => {
  it('pruning keeps every row of open sessions, however old, and of recently closed ones', async () => {
    const open = await talked('still open')
    const young = await closed('just closed')
    const old = await closed('to go')
    await schema.age([open.id, old.id], 400)
    const kept = [open.id, young.id]
    const before = await schema.everything(kept)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
    expect(await schema.everything(kept)).toEqual(before)
    expect((await store.lists.session(old.id))?.status).toBe('closed')
    expect(await store.events(old.id)).toEqual([])
    // The open session continues as if nothing had happened.
    expect(await (await open.session.send('again')).result({ timeout: 30_000 })).toMatchObject({ run: 2 })
  })

  it('a dry run of pruning changes nothing, and counts exactly what a real run then moves and deletes', async () => {
    const big = player.play(here.pawl, {
      model: (request) => (answersIn(request) % 2 === 0 ? [use('put', 'it')] : 'done'),
      put: () => BIG,
    })
    for (const text of ['one', BIG]) await (await big.session.send(text)).result({ timeout: 30_000 })
    await close(big)
    const pruned = await closed(BIG, 'two')
    await schema.age([pruned.id], 100)
    await here.pawl.prune({ olderThan: '90d' })
    const open = await talked('stays', BIG)
    await open.session.rollback({ run: 1 })
    await until('what it left is in the archive', async () => (await schema.counts(open.id)).archived_messages)
    await schema.age([big.id], 100)
    // A value of an attempt that was abandoned: no message refers to it.
    await schema.query(`insert into {schema}.blobs (session_id, sha256, bytes, content) values ($1, 'unused', 2, '{}')`, [big.id])
    await schema.query(`update {schema}.blobs set created_at = now() - interval '2 hours'`)
    await schema.query(`update {schema}.blobs set created_at = now() - interval '31 days' where sha256 = 'unused'`)
    await schema.query(`update {schema}.archived_messages set archived_at = archived_at - interval '2 days'`)
    const before = await schema.everything()
    const options = { olderThan: '90d', archiveRetention: '1d' } as const
    const { before: _, archive: counted, ...dry } = await here.pawl.prune({ ...options, dryRun: true })
    expect(await schema.everything()).toEqual(before)
    const { before: __, archive, rows, ...done } = await here.pawl.prune(options)
    const { completed_keys: keys, ...removed } = rows
    expect(dry).toEqual({ ...done, rows: removed })
    expect({ messages: counted?.messages, blobs: counted?.blobs }).toEqual({ messages: archive?.messages, blobs: archive?.blobs })
    expect(removed).toMatchObject({ archived_messages: 8, blobs: 1, tool_calls: 2 })
    expect(archive).toMatchObject({ blobs: 1 })
    expect(keys).toBe(2)
    await here.pawl.erase(open.id, { by: 'ops', force: true })
  })

  it('pruning keeps a closed session that is just being reopened', async () => {
    const { id } = await closed('one')
    await schema.age([id], 100)
    // As its workflow does when it reads the stored events.
    await schema.query('update {schema}.sessions set flushed_at = now() where session_id = $1', [id])
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 0 })
    await schema.age([id], 31)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
  })
})

describe('a session that a worker has loaded', () => {
  it('pruning keeps a closed session that a worker has loaded, however long its new events cannot be stored', async () => {
    const { id, session, requests } = await closed('one')
    await schema.age([id], 100)
    const holder = await schema.connection()
    try {
      await holder.query('begin')
      await holder.query(excludeWriters(schemaOf(schema.name)))
      await (await session.send('two')).result({ timeout: 30_000 })
      await schema.query(`update {schema}.sessions set flushed_at = flushed_at - interval '1 day' where session_id = $1`, [id])
      expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 0 })
    } finally {
      await holder.query('rollback')
      await holder.end()
    }
    await until('its new events are stored', async () => (await store.lists.session(id))?.run === 2)
    await worker.stop()
    worker = await here.startWorker({ agents: [player.agent] })
    await (await session.send('three')).result({ timeout: 30_000 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three'])
  })
})

describe('a watcher of a pruned session', () => {
  it('a watcher of a pruned session is told that the session is closed', async () => {
    const { id, session } = await closed('one')
    await schema.age([id], 100)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
    const items = session.watch({ signal: AbortSignal.timeout(10_000) })
    expect((await items[Symbol.asyncIterator]().next()).value).toEqual({ type: 'status', status: 'closed' })
  })
})

describe('a session with an event that cannot be read', () => {
  it('a session with an event that cannot be read is pruned, and does not stop the pruning of others', async () => {
    const { id } = await closed('one')
    const unreadable = logOf([
      started({ sessionId: `${id}-odd` }),
      received('m1'),
      { type: 'run_started', run: 1, messageId: 'm1' },
      { type: 'turn_started', run: 1, turn: 1, takes: null as never },
      { type: 'session_closed', reason: 'requested' },
    ])
    await store.flush(`${id}-odd`, 'a chain', unreadable)
    await schema.age([id, `${id}-odd`], 100)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 2 })
  })
})

describe('batches', () => {
  it('pruning stops between batches when it is told to, and the next pruning does the rest', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, async (_, n) => (await closed(`message ${n}`)).id))
    await schema.age(ids, 100)
    const stop = new AbortController()
    const first = await here.pawl.prune({ olderThan: '90d', batch: 2, signal: stop.signal, onBatch: () => stop.abort() })
    expect(first).toMatchObject({ sessions: 2, stopped: true })
    const left = await schema.query('select session_id from {schema}.sessions where session_id = any($1::text[]) and pruned_at is null', [
      ids,
    ])
    expect(left).toHaveLength(3)
    expect(await here.pawl.prune({ olderThan: '90d', batch: 2 })).toMatchObject({ sessions: 3, stopped: false })
  })

  it('pruning skips a session whose row is locked, and the next pruning prunes it', async () => {
    const [held, free] = await Promise.all([closed('held'), closed('free')])
    await schema.age([held.id, free.id], 100)
    const holder = await schema.connection()
    try {
      await holder.query('begin')
      await holder.query(`select 1 from "${schema.name}".sessions where session_id = $1 for update`, [held.id])
      expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
      expect((await store.events(held.id)).length).toBeGreaterThan(0)
      expect(await store.events(free.id)).toEqual([])
    } finally {
      await holder.query('rollback')
      await holder.end()
    }
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
  })

  it('pruning delays no other work: other sessions are stored while a batch is in the middle of its transaction', async () => {
    const [old, busy] = await Promise.all([closed('old'), talked('busy')])
    await schema.age([old.id], 100)
    const holder = await schema.connection()
    let pruning: Promise<unknown> | undefined
    try {
      // The batch gets as far as this message, and waits there with all the locks that it holds.
      await holder.query('begin')
      await holder.query(`select 1 from "${schema.name}".messages where session_id = $1 for update`, [old.id])
      pruning = here.pawl.prune({ olderThan: '90d' })
      await until('the batch is in its transaction', async () => {
        const rows = await schema.query(
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and strpos(query, $1) > 0 and strpos(query, 'archived_messages') > 0`,
          [schema.name],
        )
        return rows.length > 0
      })
      await (await busy.session.send('another')).result({ timeout: 30_000 })
      await until('it is stored', async () => (await store.lists.session(busy.id))?.run === 2)
    } finally {
      await holder.query('rollback')
      await holder.end()
    }
    expect(await pruning).toMatchObject({ sessions: 1 })
  })
})

describe('the archive', () => {
  it('the archive has its own retention time, also for large values of its messages, and is then deleted', async () => {
    const { id } = await closed(BIG, 'small')
    const blobs = async (): Promise<number> =>
      Number((await schema.query('select count(*) as n from {schema}.blobs where session_id = $1', [id]))[0]?.n)
    expect(await blobs()).toBe(1)
    await schema.age([id], 100)
    const report = await here.pawl.prune({ olderThan: '90d', archiveRetention: '365d' })
    expect(report).toMatchObject({ sessions: 1, archive: { messages: 0, blobs: 0 } })
    expect(await blobs()).toBe(1)
    // A value that was stored just now may belong to a message that has yet to be stored.
    await schema.query(`update {schema}.blobs set created_at = now() - interval '2 hours' where session_id = $1`, [id])
    await schema.query(`update {schema}.archived_messages set archived_at = now() - interval '366 days' where session_id = $1`, [id])
    const archived = Number((await schema.counts(id)).archived_messages)
    expect(await here.pawl.prune({ olderThan: '90d', archiveRetention: '365d' })).toMatchObject({
      sessions: 0,
      archive: { messages: archived, blobs: 1 },
    })
    expect(await schema.counts(id)).toEqual({ sessions: 1, completed_keys: 2 })
  })

  it('the archive drops old messages of a session that is still open, but no value that its events need', async () => {
    const played = await talked(BIG, 'two')
    const { id, session } = played
    await session.rollback({ run: 1 })
    await until('what it left is in the archive', async () => (await schema.counts(id)).archived_messages)
    await schema.query(`update {schema}.archived_messages set archived_at = now() - interval '366 days' where session_id = $1`, [id])
    await schema.query(`update {schema}.blobs set created_at = now() - interval '2 hours' where session_id = $1`, [id])
    const report = await here.pawl.prune({ olderThan: '90d', archiveRetention: '365d' })
    expect(report.archive?.messages).toBeGreaterThan(0)
    expect(await schema.counts(id)).toMatchObject({ blobs: 1 })
    expect((await schema.counts(id)).archived_messages).toBeUndefined()
  })
})

describe('what is said about a pruned session', () => {
  const cli = (...args: string[]) =>
    runPawl([...args, '--schema', schema.name], {
      cwd: process.cwd(),
      env: { TEMPORAL_ADDRESS: here.stack.temporalAddress, DATABASE_URL: here.stack.databaseUrl },
    })

  async function pruned(...messages: string[]): Promise<Played> {
    const played = await closed(...messages)
    await schema.age([played.id], 100)
    await here.pawl.prune({ olderThan: '90d' })
    return played
  }

  it('lists of a pruned session’s rows say when it was pruned, and how to list its messages', async () => {
    const { id, session } = await pruned('where are you')
    const command = `pawl messages ${id} --archived --schema ${schema.name}`
    const why = new RegExp(`^Session ${id} was pruned at 20\\S+Z\\. \`${command}\` lists its messages\\.\n$`)
    for (const list of ['messages', 'checkpoints', 'tools', 'errors', 'pending', 'usage']) {
      expect(await cli(list, id)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^no /), stderr: expect.stringMatching(why) })
    }
    expect((await cli('show', id)).stdout).toMatch(new RegExp(`pruned +20\\S+Z\\. \`${command}\``))
    expect((await cli('status', id)).stdout).toMatch(new RegExp(`stored +only messages, in the archive: pruned 20.+\n +\`${command}\``))
    expect(await cli('messages', id, '--archived')).toMatchObject({ code: 0, stdout: expect.stringContaining('where are you'), stderr: '' })
    await schema.query('delete from {schema}.archived_messages where session_id = $1', [id])
    expect(await cli('messages', id, '--archived')).toMatchObject({
      stdout: 'no archived messages\n',
      stderr: expect.stringMatching(/was pruned at 20\S+Z\. Its archived messages were deleted\.\n$/),
    })
    await (await session.send('once more')).result({ timeout: 30_000 })
    await until('its rows are there', async () => (await store.lists.session(id))?.status === 'idle')
    expect(await cli('errors', id)).toMatchObject({ stdout: 'no errors\n', stderr: '' })
    expect(await session.status()).not.toHaveProperty('prunedAt')
  })

  it('reads of a pruned session’s events say that it was pruned, not that there is no such session', async () => {
    const { id } = await pruned('one')
    const queries = openQueries({ postgres: here.stack.databaseUrl, schema: schema.name })
    try {
      const { prunedAt } = await queries.sessions.get(id)
      const of = queries.session(id)
      const reads = [
        () => of.plans(),
        () => of.plan(1),
        () => of.memory(),
        () => of.memoryVersions(),
        () => of.budgets(),
        () => of.runReport(1),
        () => of.messagesUpTo({ run: 1 }),
      ]
      const message = `Session "${id}" was pruned at ${prunedAt?.toISOString()}, and its events are deleted. \`pawl messages ${id} --archived\` lists`
      for (const read of reads)
        await expect(read()).rejects.toMatchObject({ code: 'events_gone', message: expect.stringContaining(message) })
      expect(await of.status()).toMatchObject({ status: 'closed', prunedAt: prunedAt?.getTime() })
    } finally {
      await queries.close()
    }
  })

  it('a report of a run from before the pruning says that the session was pruned', async () => {
    const { id, session } = await pruned('one')
    await (await session.send('two')).result({ timeout: 30_000 })
    await expect(session.runReport(1)).rejects.toMatchObject({
      code: 'run_not_found',
      message: expect.stringMatching(new RegExp(`was pruned at 20\\S+Z, run 1 included\\. \`pawl messages ${id} --archived\``)),
    })
  })
})

describe('a large message that waits for a worker', () => {
  it.each([
    ['of an open session', false],
    ['of a session that is pruned meanwhile', true],
  ])('a large message %s is whole when a worker starts, however long it has waited', async (_, isClosed) => {
    const played = await talked(BIG, 'two')
    const { id, session, requests } = played
    if (isClosed) await close(played)
    else {
      await session.rollback({ run: 1 })
      await until('what it left is in the archive', async () => (await schema.counts(id)).archived_messages)
    }
    await worker.stop()
    const run = await session.send(`${BIG}!`)
    await schema.age([id], 100)
    await schema.query(`update {schema}.archived_messages set archived_at = now() - interval '366 days' where session_id = $1`, [id])
    await schema.query(`update {schema}.blobs set created_at = created_at - interval '3 days' where session_id = $1`, [id])
    await here.pawl.prune({ olderThan: '90d', archiveRetention: '365d' })
    worker = await here.startWorker({ agents: [player.agent] })
    await run.result({ timeout: 30_000 })
    expect(saidIn(requests.at(-1)!).at(-1)).toBe(`${BIG}!`)
  })
})

describe('pruning with', () => {
  it.each([
    [{ olderThan: 'yesterday' }, /`olderThan` must be .*, not "yesterday"/],
    [{ olderThan: '0d' }, /`olderThan` must be .*, not "0d"/],
    [{ olderThan: -1 }, /`olderThan` must be .*, not -1/],
    [{ olderThan: '90d', archiveRetention: '1 year' }, /`archiveRetention` must be .*, not "1 year"/],
    [{ olderThan: '90d', batch: 0 }, /`batch` must be .*, not 0/],
    [{ olderThan: '90d', batch: Number.NaN }, /`batch` must be .*, not NaN/],
    [{ olderThan: '90d', by: '' }, /`by` must be text of 1 to/],
  ])('pruning with %j is refused, and changes nothing', async (options, message) => {
    const { id } = await closed('one')
    await schema.age([id], 100)
    const before = await schema.everything([id])
    await expect(here.pawl.prune(options as PruneOptions)).rejects.toMatchObject({
      code: 'invalid_option',
      message: expect.stringMatching(message),
    })
    expect(await schema.everything([id])).toEqual(before)
    await here.pawl.prune({ olderThan: '90d' })
  })

  it('pruning is refused for a client without a side store', async () => {
    const without = await here.connect({ postgres: false })
    await expect(without.prune({ olderThan: '90d' })).rejects.toMatchObject({ code: 'no_store' })
  })
})

describe('pawl prune', () => {
  const env = (): Record<string, string> => ({
    TEMPORAL_ADDRESS: here.stack.temporalAddress,
    TEMPORAL_NAMESPACE: here.stack.namespace,
    DATABASE_URL: here.stack.databaseUrl,
  })
  const run = (...args: string[]) => runPawl(['prune', ...args, '--schema', schema.name], { cwd: process.cwd(), env: env() })

  it('pawl prune counts, prunes, and reports as text and as JSON', async () => {
    const { id } = await closed('one')
    await schema.age([id], 100)
    const counted = await run('--older-than', '90d', '--dry-run')
    expect(counted).toMatchObject({ code: 0, stderr: '' })
    expect(counted.stdout).toContain('1 closed session, inactive since')
    expect(counted.stdout).toContain('would be pruned')
    const done = await run('--older-than', '90d', '--archive-retention', '365d', '--batch', '1', '--json')
    expect(done).toMatchObject({ code: 0, stderr: '' })
    const lines = done.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { event: string; sessions: number })
    expect(lines.map(({ event }) => event)).toEqual(['batch', 'pruned'])
    expect(lines.at(-1)).toMatchObject({ sessions: 1 })
    expect(await store.events(id)).toEqual([])
  })

  it('pawl prune needs little memory, even for long sessions', async () => {
    const id = `long-${randomUUID()}`
    const end: EventBody = { type: 'session_closed', reason: 'requested' }
    await store.flush(id, 'a chain', logOf([started({ sessionId: id }), end]))
    // 150 MB.
    const json = `'{"v":1,"seq":' || n || ',"at":1,"type":"message_received","messageId":"m' || n || '","content":"' || repeat('x', 50000) || '"}'`
    await schema.query(
      `insert into {schema}.events (session_id, seq, epoch, type, at, digest, json)
       select $1, n, 'a chain', 'message_received', now(), 'd', ${json} from generate_series(10, 3009) as n`,
      [id],
    )
    await schema.age([id], 100)
    const small = { ...env(), NODE_OPTIONS: '--max-old-space-size=96' }
    const args = ['prune', '--older-than', '90d', '--json', '--schema', schema.name]
    const { code, stdout } = await pawl(args, { cwd: process.cwd(), env: small, input: '' }).ended
    expect(code).toBe(0)
    expect(JSON.parse(stdout.trim().split('\n').at(-1) ?? '')).toMatchObject({ event: 'pruned', sessions: 1, rows: { events: 3_002 } })
  })

  it('pawl prune refuses missing and invalid options with exit code 1', async () => {
    expect(await run()).toMatchObject({ code: 1, stderr: expect.stringContaining('--older-than') })
    expect(await run('--older-than', 'soon')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^invalid_option: /) })
    expect(await run('--older-than', '90d', '--batch', 'many')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^invalid_option: /),
    })
  })
})

describe('an effect whose events were pruned', () => {
  const pay = (effects: string[]) =>
    defineTool({
      name: 'settle',
      description: 'Settles an invoice.',
      input: z.object({ invoice: z.string(), fails: z.boolean().optional() }),
      effect: 'external',
      idempotency: 'session',
      onUnknown: 'tell_model',
      execute({ invoice, fails }) {
        effects.push(invoice)
        if (fails) throw new Error('the connection was lost')
        return { paid: invoice }
      },
      effectId: ({ paid }) => `pay-${paid}`,
    })

  /** An agent that settles the invoice which the user names, and says what the tool has answered. */
  const clerk = (name: string, effects: string[]): Agent =>
    defineAgent({
      name,
      instructions: 'Settle.',
      tools: [pay(effects)],
      model: scripted((request) => {
        const last = request.messages.at(-1)
        const text = saidIn(request).at(-1) ?? ''
        if (last?.role === 'user' && Array.isArray(last.content) && last.content.some(({ type }) => type === 'tool_result'))
          return JSON.stringify(last.content)
        return [{ type: 'tool_use', id: 'u', name: 'settle', input: { invoice: text, ...(text === 'lost' && { fails: true }) } }]
      }),
    })

  /** Its own task queue: the file's other worker does not serve these agents. */
  let own: Deployment
  const effects: string[] = []
  beforeAll(async () => {
    own = await deploy({ schema: schema.name })
    await own.startWorker({ agents: [clerk('clerk', effects)] })
  })
  afterAll(() => own?.stop())
  beforeEach(() => void effects.splice(0))

  async function settles(agent: string, id: string, invoice: string): Promise<string> {
    return (await (await own.pawl.session(id, { agent }).send(invoice)).result({ timeout: 30_000 })).text
  }

  async function pruned(agent: string, id: string): Promise<void> {
    await close({ id, session: own.pawl.session(id, { agent }) })
    await schema.age([id], 100)
    // An earlier prune was longer ago than what has happened since.
    await schema.query(`update {schema}.sessions set pruned_at = pruned_at - interval '200 days' where session_id = $1`, [id])
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
  }

  it('a pruned effect does not happen again, even after another prune: the model is told that it has happened', async () => {
    const id = `clerk-${randomUUID()}`
    await settles('clerk', id, 'A1')
    await pruned('clerk', id)
    const [kept] = await schema.query('select * from {schema}.completed_keys where session_id = $1', [id])
    expect(kept).toMatchObject({
      call_id: 't_1_1_0',
      tool: 'settle',
      outcome: 'completed',
      effect_id: 'pay-A1',
      result_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(await settles('clerk', id, 'A1')).toContain('[idempotent replay of t_1_1_0]\\nThis effect has already happened.')
    expect(await settles('clerk', id, 'A2')).toContain('paid')
    await pruned('clerk', id)
    for (const invoice of ['A1', 'A2']) expect(await settles('clerk', id, invoice)).toContain('already happened')
    expect(effects).toEqual(['A1', 'A2'])
    await here.pawl.erase(id, { by: 'dpo', force: true })
    expect(await schema.query('select 1 from {schema}.completed_keys where session_id = $1', [id])).toEqual([])
  })

  it('a pruned effect does not happen again in a pruned fork that shares the keys of its original', async () => {
    const id = `clerk-${randomUUID()}`
    await settles('clerk', id, 'B0')
    const fork = await own.pawl.session(id, { agent: 'clerk' }).fork()
    await settles('clerk', fork.id, 'B1')
    await pruned('clerk', fork.id)
    for (const invoice of ['B0', 'B1']) expect(await settles('clerk', fork.id, invoice)).toContain('already happened')
    await pruned('clerk', fork.id)
    expect(await settles('clerk', fork.id, 'B1')).toContain('already happened')
    expect(effects).toEqual(['B0', 'B1'])
  })

  it('keys known only from the snapshot of a rebuild outlive pruning, together with the session that they belong to', async () => {
    const id = `adopted-${randomUUID()}`
    const past = fold(undefined, eventsOf(logOf([started({ sessionId: id })])))
    const state: SessionState = {
      ...(past ?? expect.fail('no state')),
      seq: 40,
      keysOf: 'the original',
      keys: { [shortHash('settle:A1')]: 't_1_1_0', [shortHash('settle:A2')]: 't_1_2_0' },
      unknown: { t_2_1_0: { run: 2, turn: 1, attempt: 1, resolution: { ...SETTLE, key: 'settle:lost' } } },
    }
    await store.upkeep.adopt(id, { epoch: EPOCH, state, digest: 'd' })
    const undone: EventBody = { type: 'rolled_back', toSeq: 39, upToSeq: 40, keys: 'forgotten', effects: [UNDONE] }
    const log = logOf([undone, { type: 'session_closed', reason: 'idle' }], { seq: 40, digest: 'd' })
    await store.flush(id, EPOCH, log, { executionId: EPOCH })
    await schema.age([id], 100)
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
    expect(await store.completedKey(id, 'settle:A1')).toEqual({ callId: 't_1_1_0', outcome: 'completed' })
    expect(await store.completedKey(id, 'settle:lost')).toEqual({ callId: 't_2_1_0', outcome: 'unknown' })
    expect(await store.completedKey(id, 'settle:A2')).toBeNull()
    expect(await store.completedKey(id, 'settle:A3')).toBeNull()
    expect(await store.resume(id)).toMatchObject({ lost: true, keysOf: 'the original' })
  })

  it('an effect whose events were pruned is not repeated, even if its outcome was never known', async () => {
    const id = `unsure-${randomUUID()}`
    await settles('clerk', id, 'lost')
    await pruned('clerk', id)
    expect(await settles('clerk', id, 'lost')).toContain('It may have taken effect')
    expect(effects).toEqual(['lost'])
  })
})
