// The inbox of all sessions, from the client and from the command line, and how SQL records what people decide.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ListedPendingCall } from 'pawl/client'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { digestOf, pendingOf, type ApprovalScene, type ApprovalStage, approvalStage, SHORT_MS, once } from '../support/approvals.ts'
import { until } from '../support/until.ts'
import { type Ended, runPawl } from './cli/processes.ts'
import type { PendingListOptions } from '../../src/client/queries/list-options.ts'

const schema = `pending_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const TIMEOUT = { timeout: 60_000 }
const WILD = 'one\u001b[2Jtwo\u0000'

let here: Deployment
let asker: ApprovalStage
let others: ApprovalStage
let database: pg.Client
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-pending-'))
  here = await deploy({ schema })
  asker = approvalStage()
  others = approvalStage({ name: 'other' })
  await here.startWorker({ agents: [asker.agent, others.agent] })
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
})
afterAll(async () => {
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
  await rm(folder, { recursive: true, force: true })
})

const lost: NonNullable<ApprovalScene['body']> = (tool, _input, { attempt }) => {
  if (attempt === 1 && /^(post|mail)$/.test(tool)) throw new Error('the line broke')
}

async function pending(options: PendingListOptions = {}): Promise<ListedPendingCall[]> {
  const items: ListedPendingCall[] = []
  for await (const item of here.pawl.pending.list(options)) items.push(item)
  return items
}

/** A session that waits and is in the inbox. */
async function waiting(id: string, scene: ApprovalScene, options: { tags?: string[]; stage?: ApprovalStage } = {}) {
  const { tags = [], stage = asker } = options
  const { session } = stage.play(here.pawl, scene, { id, tags })
  const run = await session.send('go')
  // A short request may expire meanwhile.
  await until('the inbox has it', async () => (await pending({ session: id })).length === (await pendingOf(run)).length)
  return { session, run }
}

function cli(...args: string[]): Promise<Ended> {
  const { temporalAddress, databaseUrl } = inject('stack')
  const env = { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl }
  const where = ['--schema', schema, ...(args[0] === 'pending' ? [] : ['--task-queue', here.taskQueue])]
  return runPawl([...args, ...where], { cwd: folder, env })
}

async function rowsOf(table: string, sessionId: string): Promise<Record<string, unknown>[]> {
  const { rows } = await database.query(`select * from ${schema}.${table} where session_id = $1 order by seq`, [sessionId])
  return rows
}

async function allStored(session: { id: string }): Promise<void> {
  const { length } = await eventsOf(here.pawl.session(session.id))
  await until('all is stored', async () => (await here.pawl.sessions.get(session.id)).flushedSeq >= length)
}

describe('the inbox', () => {
  it('the inbox lists every waiting call, oldest first, with what a person needs to decide', async () => {
    const reason = `because ${WILD}`
    await waiting('inbox-a', { model: once(['pay', WILD, 5], ['form', 'b']), approval: () => reason }, { tags: ['vip', 'eu'] })
    await waiting('inbox-b', { model: once(['post', 'c'], ['look', 'x']), body: lost }, { tags: ['vip'] })
    await waiting('inbox-c', { model: once(['ask', 'd']) }, { stage: others })
    const all = (await pending()).filter(({ sessionId }) => sessionId.startsWith('inbox'))
    expect(all).toMatchObject([
      {
        kind: 'approval',
        sessionId: 'inbox-a',
        agent: 'helped',
        tags: ['vip', 'eu'],
        callId: 't_1_1_0',
        run: 1,
        turn: 1,
        tool: 'pay',
        effect: 'external',
        input: { what: WILD, n: 5 },
        onExpiry: 'deny',
        attempt: 0,
      },
      { kind: 'client', sessionId: 'inbox-a', callId: 't_1_1_1', reason: null, expiresAt: null, onExpiry: null },
      { kind: 'unknown', sessionId: 'inbox-b', callId: 't_1_1_0', attempt: 1, reason: expect.stringContaining('unknown') },
      { kind: 'client', sessionId: 'inbox-c', agent: 'other', tool: 'ask' },
    ])
    const [asked] = all
    expect(asked!.expiresAt!.getTime() - asked!.waitingSince.getTime()).toBe(24 * 3_600_000)
  })

  it('the overview lists approvals that expire soon before those that have waited longer', async () => {
    await waiting('soon-a', { model: once(['pay', 'a']) })
    const { session, run } = await waiting('soon-b', { model: once(['calm', 'b']) })
    const { items } = await here.pawl.overview({ idPrefix: 'soon-' })
    expect(items.map(({ sessionId, needs, tools }) => [sessionId, needs, tools])).toEqual([
      ['soon-b', 'approval', ['calm']],
      ['soon-a', 'approval', ['pay']],
    ])
    const [call] = await pendingOf(run)
    expect(items[0]?.expiresAt?.getTime()).toBe(call?.expiresAt)
    expect((await session.status()).waitsFor[0]).toMatchObject({ for: 'person', to: 'approve', input: { what: 'b' } })
  })

  it('the overview names only the tools of a session that need the decision it shows', async () => {
    const { session, run } = await waiting('both', { model: once(['form', 'a'], ['calm', 'b']) })
    const needed = async () => (await here.pawl.overview({ idPrefix: 'both' })).items.map(({ needs, tools }) => [needs, tools])
    expect(await needed()).toEqual([['approval', ['calm']]])
    await session.deny('t_1_1_1', { digest: (await pendingOf(run)).find(({ kind }) => kind === 'approval')!.digest! })
    await until('only the form waits', async () => (await needed())[0]?.[0] === 'answer')
    expect(await needed()).toEqual([['answer', ['form']]])
  })

  it('the inbox can be filtered by kind, agent, tags and session, and read page by page', async () => {
    await waiting('page-a', { model: once(['pay', 'a'], ['pay', 'b'], ['form', 'c']) }, { tags: ['page', 'x'] })
    await waiting('page-b', { model: once(['form', 'd'], ['pay', 'e']) }, { tags: ['page'], stage: others })
    const of = async (options: PendingListOptions) => (await pending(options)).map(({ sessionId, callId }) => `${sessionId} ${callId}`)
    const all = ['page-a t_1_1_0', 'page-a t_1_1_1', 'page-a t_1_1_2', 'page-b t_1_1_0', 'page-b t_1_1_1']
    expect(await of({ tag: 'page' })).toEqual(all)
    expect(await of({ tag: 'page', limit: 2 })).toEqual(all)
    expect(await of({ tags: ['page', 'x'] })).toEqual(all.slice(0, 3))
    expect(await of({ tag: 'page', agent: 'other' })).toEqual(all.slice(3))
    expect(await of({ tag: 'page', kind: 'client' })).toEqual([all[2], all[3]])
    expect(await of({ tag: 'page', kind: ['approval', 'unknown'] })).toEqual([all[0], all[1], all[4]])
    expect(await of({ session: 'page-b' })).toEqual(all.slice(3))
    const first = await here.pawl.pending.list({ tag: 'page', limit: 3 })
    expect(first.items).toHaveLength(3)
    const second = await here.pawl.pending.list({ tag: 'page', limit: 3, cursor: first.cursor! })
    expect([second.items.length, second.cursor]).toEqual([2, undefined])
    await expect(here.pawl.pending.list({ tag: 'other', cursor: first.cursor! })).rejects.toMatchObject({ code: 'invalid_cursor' })
    await expect(here.pawl.pending.list({ kind: 'nothing' as never })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(here.pawl.pending.list({ status: 'x' } as never)).rejects.toMatchObject({ code: 'invalid_option' })
  })

  it('the inbox drops calls that were decided, answered, resolved, expired, stopped, or only reported to the model', async () => {
    const { session, run } = await waiting('leave-a', {
      model: once(['pay', 'a'], ['pay', 'b'], ['form', 'c'], ['hurry', 'd'], ['post', 'e'], ['mail', 'f']),
      body: lost,
    })
    const by = new Map((await pendingOf(run)).map(({ callId, digest = '' }) => [callId, digest]))
    await session.approve('t_1_1_0', { digest: by.get('t_1_1_0')! })
    await session.deny('t_1_1_1', { digest: by.get('t_1_1_1')! })
    await session.answer('t_1_1_2', { agreed: true })
    const [unknown] = await until('only the unknown one is left', async () => {
      const left = await pending({ session: 'leave-a' })
      return left.length === 1 && left[0]?.kind === 'unknown' && left
    })
    expect(unknown).toMatchObject({ callId: 't_1_1_4' })
    await session.resolve('t_1_1_4', 'skip')
    await run.result(TIMEOUT)
    await until('the inbox is empty', async () => (await pending({ session: 'leave-a' })).length === 0)
    // If the tool says to tell the model about an unknown outcome, no person has to decide.
    expect((await session.toolCalls()).at(-1)).toMatchObject({ tool: 'mail', status: 'unknown' })

    const stopped = await waiting('leave-b', { model: once(['pay', 'a'], ['form', 'b']) })
    await stopped.session.interrupt()
    await stopped.run.settled(TIMEOUT)
    await until('the inbox is empty', async () => (await pending({ session: 'leave-b' })).length === 0)
  })

  it('the inbox drops a stopped run’s requests, except for effects that may have happened; SQL explains each call', async () => {
    const { session, run } = await waiting('leave-c', { model: once(['post', 'a'], ['pay', 'b'], ['pay', 'c'], ['form', 'd']), body: lost })
    const [, asked, approved] = await until('it is lost', async () => {
      const all = await pendingOf(run)
      return all.some(({ kind }) => kind === 'unknown') && all
    })
    // The approved call has to wait for the effects before it.
    await session.approve(approved!.callId, { digest: approved!.digest!, by: 'ann' })
    await session.interrupt()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await allStored(session)
    expect(await pending({ session: 'leave-c' })).toMatchObject([{ kind: 'unknown', callId: 't_1_1_0' }])
    expect(await rowsOf('approvals', 'leave-c')).toMatchObject([
      { call_id: asked!.callId, status: 'abandoned', decided_by: null, decided_at: expect.any(Date) },
      { call_id: approved!.callId, status: 'approved', decided_by: 'ann' },
    ])
    const { rows } = await database.query(`select * from ${schema}.tool_calls where session_id = 'leave-c' order by call_index`)
    expect(rows).toMatchObject([
      { tool: 'post', status: 'unknown', error: { code: 'outcome_unknown' } },
      { tool: 'pay', status: 'skipped', error: { code: 'abandoned' }, approval: { decision: 'abandoned' } },
      { tool: 'pay', status: 'skipped', error: { code: 'abandoned' }, approval: { decision: 'approved' } },
      { tool: 'form', status: 'skipped', error: { code: 'abandoned' }, approval: null },
    ])
    await session.resolve('t_1_1_0', { happened: true, result: 'it did' }, { by: 'bob' })
    await allStored(session)
    expect((await session.toolCalls())[0]).toMatchObject({ tool: 'post', status: 'completed', result: 'it did' })
    expect(await pending({ session: 'leave-c' })).toEqual([])
  })
})

describe('a decision', () => {
  it('a decision is recorded in SQL: who decided, when, on which call, and why', async () => {
    const { session, run } = await waiting('said', {
      model: once(['pay', 'a', 9], ['pay', 'b'], ['hurry', 'c'], ['post', 'd']),
      approval: ({ what }) => `for ${what}`,
      body: lost,
    })
    const by = new Map((await pendingOf(run)).map(({ callId, digest = '' }) => [callId, digest]))
    await session.approve('t_1_1_0', { digest: by.get('t_1_1_0')!, input: { what: 'a', n: 1 }, by: 'ann', note: `less ${WILD}` })
    await session.deny('t_1_1_1', { digest: by.get('t_1_1_1')!, by: 'bob', reason: 'no', note: 'not him' })
    await until('it is lost', async () => (await pendingOf(run)).some(({ kind }) => kind === 'unknown'))
    await session.resolve('t_1_1_3', { happened: true, result: 'ok' }, { by: 'cid', note: 'found it' })
    await run.result(TIMEOUT)
    await allStored(session)
    const approvals = await rowsOf('approvals', 'said')
    expect(approvals).toMatchObject([
      {
        call_id: 't_1_1_0',
        agent: 'helped',
        tool: 'pay',
        reason: 'for a',
        status: 'approved',
        decided_by: 'ann',
        digest: by.get('t_1_1_0'),
      },
      { call_id: 't_1_1_1', status: 'denied', decided_by: 'bob', note: 'not him' },
      { call_id: 't_1_1_2', status: 'expired', decided_by: null },
    ])
    expect(approvals[0]?.raw_decision).toContain('less one')
    for (const row of approvals) expect((row.decided_at as Date).getTime()).toBeGreaterThanOrEqual((row.requested_at as Date).getTime())
    expect((approvals[2]!.expires_at as Date).getTime() - (approvals[2]!.requested_at as Date).getTime()).toBe(SHORT_MS)
    expect(await rowsOf('recoveries', 'said')).toMatchObject([
      {
        kind: 'tool_resolved',
        agent: 'helped',
        run: 1,
        by: 'cid',
        note: 'found it',
        details: { callId: 't_1_1_3', tool: 'post', happened: true, decision: null },
      },
    ])
    const { rows } = await database.query(`select * from ${schema}.tool_calls where session_id = 'said' order by call_index`)
    expect(rows).toMatchObject([
      { status: 'completed', input: { what: 'a', n: 1 }, approval: { decision: 'approved', edited: true, decidedBy: 'ann' } },
      { status: 'denied', approval: { decision: 'denied', note: 'not him' } },
      { status: 'denied', approval: { decision: 'expired' } },
      { status: 'completed', resolved_by: 'cid', note: 'found it', result: 'ok' },
    ])
  })
})

describe('the command line', () => {
  it('the command line lists what is pending, and prints no terminal control sequences', async () => {
    await waiting('cli-list', { model: once(['pay', WILD], ['form', 'b']) }, { tags: ['cli'] })
    const table = await cli('pending', '--tag', 'cli')
    expect(table.code).toBe(0)
    expect(table.stdout).toMatch(/^kind +session +call/)
    expect(table.stdout).toMatch(/approval +cli-list +t_1_1_0 +pay/)
    expect(table.stdout).not.toContain('\u001b[2J')
    const json = await cli('pending', '--tag', 'cli', '--kind', 'client', '--json')
    expect(
      json.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toMatchObject([{ kind: 'client', callId: 't_1_1_1' }])
    const wrong = await cli('pending', '--kind', 'nothing')
    expect([wrong.code, wrong.stdout, wrong.stderr]).toEqual([1, '', expect.stringMatching(/^invalid_option: `kind` must be/)])
  })

  it('the command line approves, denies, answers and resolves', async () => {
    const { session, run } = await waiting('cli-say', {
      model: once(['pay', 'a', 9], ['pay', 'b'], ['form', 'c'], ['post', 'd']),
      body: lost,
    })
    const digest = await digestOf(run, 't_1_1_0')
    const other = await cli('approve', 'cli-say', 't_1_1_0', '--digest', 'another')
    expect([other.code, other.stderr]).toEqual([1, expect.stringMatching(/^digest_mismatch: /)])
    const approved = await cli(
      'approve',
      'cli-say',
      't_1_1_0',
      '--digest',
      digest,
      '--by',
      'ann',
      '--note',
      'fine',
      '--input',
      '{"what":"a","n":1}',
      '--json',
    )
    expect([approved.code, approved.stderr]).toEqual([0, ''])
    expect(JSON.parse(approved.stdout)).toMatchObject({
      event: 'approved',
      sessionId: 'cli-say',
      callId: 't_1_1_0',
      digest: expect.any(String),
    })
    const denied = await cli('deny', 'cli-say', 't_1_1_1', '--reason', 'too much', '--by', 'bob')
    expect([denied.code, denied.stdout]).toEqual([0, 't_1_1_1 is denied\n'])
    await allStored(session)
    const twice = await cli('deny', 'cli-say', 't_1_1_1')
    expect([twice.code, twice.stderr]).toEqual([
      1,
      expect.stringMatching(
        /^not_waiting: [^]* t_1_1_1 was denied by bob at 20\S+Z, and ended without being executed at 20\S+Z \(denied\)\.\n$/,
      ),
    ])
    const shapeless = await cli('answer', 'cli-say', 't_1_1_2', '"yes"')
    expect([shapeless.code, shapeless.stderr]).toEqual([1, expect.stringMatching(/^invalid_answer: /)])
    expect((await cli('answer', 'cli-say', 't_1_1_2', 'yes')).stderr).toContain('Use JSON')
    const answered = await cli('answer', 'cli-say', 't_1_1_2', '{"agreed":true}', '--by', 'customer')
    expect([answered.code, answered.stdout]).toEqual([0, 't_1_1_2 is answered\n'])
    await until('it is lost', async () => (await pendingOf(run)).some(({ kind }) => kind === 'unknown'))
    expect((await cli('resolve', 'cli-say', 't_1_1_3', '--retry', '--skip')).stderr).toMatch(/^invalid_usage: /)
    const wrapped = await cli('resolve', 'cli-say', 't_1_1_3', '--happened', '{"happened":true,"result":{"id":"re_1"}}')
    expect(wrapped.stderr).toContain(`Pass only the tool's result, without { happened, result } around it: --happened '{"id":"re_1"}'.`)
    expect((await cli('resolve', 'cli-say', 't_1_1_3', '--happened', 're_1')).stderr).toContain(`Use JSON, such as '{"id":"re_1"}'`)
    const resolved = await cli('resolve', 'cli-say', 't_1_1_3', '--not-happened', '--by', 'cid', '--note', 'asked them')
    expect([resolved.code, resolved.stdout]).toEqual([0, 't_1_1_3 is resolved: it did not happen\n'])
    await run.result(TIMEOUT)
    await allStored(session)
    expect((await cli('approve', 'cli-say', 't_1_1_0')).stderr).toMatch(
      /t_1_1_0 was approved by ann at 20\S+Z, and completed at 20\S+Z\.\n$/,
    )
    expect((await cli('answer', 'cli-say', 't_1_1_2', '{"agreed":true}')).stderr).toMatch(/t_1_1_2 completed by customer at 20\S+Z\.\n$/)
    expect((await cli('resolve', 'cli-say', 't_1_1_3', '--skip')).stderr).toMatch(/t_1_1_3 \S+ by cid at 20\S+Z/)
    expect(await rowsOf('approvals', 'cli-say')).toMatchObject([{ decided_by: 'ann', note: 'fine' }, { decided_by: 'bob' }])
    expect(await rowsOf('recoveries', 'cli-say')).toMatchObject([{ by: 'cid', note: 'asked them' }])
    const refused = await cli('approve', 'nobody-at-all', 't_1_1_0')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^session_not_found: /)])
  })
})
