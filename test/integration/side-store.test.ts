// While the side store is down, runs continue and answers come from the workflow. Afterwards every row is there, once.
import pg from 'pg'
import { startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { errorsOf } from '../support/errors-of.ts'

let stack: Stack
let here: Deployment
let player: Stage
let store: Store

beforeAll(async () => {
  // A stack of its own: other tests must not notice that Postgres stops and starts.
  stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
  here = await deploy({ stack })
  player = stage()
  store = openStore({ postgres: stack.databaseUrl })
})
afterAll(async () => {
  await store?.close()
  await here?.stop()
  await stack?.stop()
})

/** Waits until the store has the workflow's own events, each once and nothing else. */
async function expectAllStored(id: string): Promise<void> {
  const live = await here.connect({ postgres: false })
  const events = await eventsOf(live.session(id))
  await until('the store has caught up', async () => (await store.events(id)).length >= events.length, 40_000)
  expect(await store.events(id)).toEqual(events)
  const client = new pg.Client(stack.databaseUrl)
  await client.connect()
  const { rows } = await client.query(
    'select count(*)::int as n, count(distinct seq)::int as seqs, max(seq)::int as last from pawl.events where session_id = $1',
    [id],
  )
  const calls = await client.query('select count(*)::int as n from pawl.tool_calls where session_id = $1', [id])
  await client.end()
  expect(rows).toEqual([{ n: events.length, seqs: events.length, last: events.length }])
  expect(calls.rows[0].n).toBe(ofType(events, 'tool_issued').length)
}

it('runs complete although Postgres is down when the worker starts; the rows are written once Postgres starts', async () => {
  await stack.postgres.stop()
  await here.startWorker({ agents: [player.agent] })
  const { session, id } = player.play(here.pawl, { model: (request) => (answersIn(request) ? 'done' : [use('put', 'it')]) })
  const run = await session.send('hello', { isNew: true })
  expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
  expect((await session.state()).status).toBe('idle')
  await stack.postgres.start()
  await expectAllStored(id)
})

it('a session that may already exist waits for the store before it answers, and loses nothing', async () => {
  await stack.postgres.stop()
  const { session, requests } = player.play(here.pawl, {})
  const run = await session.send('hello')
  await expect(run.result({ timeout: 1_000 })).rejects.toMatchObject({ code: 'result_timeout' })
  expect(requests).toEqual([])
  await stack.postgres.start()
  await run.result({ timeout: 30_000 })
  expect(saidIn(requests[0]!)).toEqual(['hello'])
})

it('a run finishes while Postgres is stopped in the middle of it, and every row is there once after Postgres starts again', async () => {
  const middle = gate()
  const { session, id, count } = player.play(here.pawl, {
    async model(request, ctx) {
      const turn = answersIn(request)
      if (turn === 3) await middle.pass(ctx.signal)
      if (saidIn(request).length > 1) return 'second answer'
      return turn < 6 ? [use('put', `thing ${turn}`), use('look', `at ${turn}`)] : 'first answer'
    },
    look(_input, ctx) {
      if (ctx.attempt === 1 && ctx.turn === 5) throw new Error('fails once, while Postgres is down')
    },
  })
  const run = await session.send('one')
  await middle.reached
  await until('the store has the beginning', async () => (await store.events(id)).length > 0)
  await stack.postgres.stop()
  middle.open()

  expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'first answer' })
  expect(await (await session.send('two')).result({ timeout: 30_000 })).toMatchObject({ run: 2, text: 'second answer' })
  expect(await session.state()).toMatchObject({ status: 'idle', run: 2 })
  const rows = await session.messages()
  expect(rows.filter(({ kind }) => kind === 'user').map(({ content }) => content)).toEqual(['one', 'two'])
  expect(rows.at(-1)).toMatchObject({ role: 'assistant', run: 2 })

  await stack.postgres.start()
  await expectAllStored(id)
  expect(count('put')).toBe(6)
  const errors = await errorsOf(store, id)
  expect(errors.filter(({ context }) => context !== 'checkpoint').map(({ attempt, message }) => [attempt, message])).toEqual([
    [1, 'fails once, while Postgres is down'],
  ])
  // Late checkpoints are reported too.
  expect(errors.filter(({ context }) => context === 'checkpoint')).toMatchObject([{ message: expect.stringContaining('late') }])
  expect((await session.messages()).map(({ messageId, seq, role }) => [messageId, seq, role])).toEqual(
    rows.map(({ messageId, seq, role }) => [messageId, seq, role]),
  )
})

it('a close waits for the store, and the next send finds everything', async () => {
  const { session, id, requests } = player.play(here.pawl, {})
  await (await session.send('one')).result({ timeout: 30_000 })
  await stack.postgres.stop()
  await (await session.send('two')).result({ timeout: 30_000 })
  await session.close()
  const handle = here.temporal.workflow.getHandle(`pawl:${id}`)
  expect((await handle.describe()).status.name).toBe('RUNNING')
  await stack.postgres.start()
  await here.workflowEnded(id, 40_000)
  await (await session.send('three')).result({ timeout: 30_000 })
  expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three'])
})
