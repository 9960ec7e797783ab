// The comparison that other tests rely on: it accepts a sound session, and notices any error in any row.
import { ModelError } from 'pawl'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { type ApprovalStage, approvalStage, pendingOf } from '../support/approvals.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, inOrder, type Played, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage
let asker: ApprovalStage
let client: pg.Client

beforeAll(async () => {
  here = await deploy()
  player = stage()
  asker = approvalStage()
  await here.startWorker({ agents: [player.agent, asker.agent] })
  client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
})
afterAll(async () => {
  await client?.end()
  await here?.stop()
})

/** A session with a row in most tables: a failed attempt, a replay, two runs. */
async function aSession(): Promise<string> {
  const { session, id } = player.play(here.pawl, {
    model: inOrder([use('put', 'it'), use('look', 'here')], [use('put', 'it')], 'done', 'done again'),
    look(_input, { attempt }) {
      if (attempt === 1) throw new Error('cannot look')
    },
  })
  await (await session.send('go', { isNew: true })).result({ timeout: 60_000 })
  await (await session.send('once more')).result({ timeout: 60_000 })
  return id
}

it('the rows of a sound session match its events in every table', async () => {
  const { events, state, rows } = await rowsMatchEvents(here.stack, await aSession())
  expect(state).toMatchObject({ status: 'idle', run: 2 })
  expect(rows.events).toHaveLength(events.length)
  expect(rows.errors).toMatchObject([{ attempt: 1, message: 'cannot look' }])
  expect(rows.tool_calls.map(({ status }) => status).toSorted()).toEqual(['completed', 'completed', 'replayed'])
  for (const table of ['messages', 'token_usage', 'checkpoints', 'sessions'] as const) expect(rows[table].length, table).toBeGreaterThan(0)
})

/** Says something to a session, and waits for the answer. */
async function say({ session }: Pick<Played, 'session'>, text: string): Promise<void> {
  await (await session.send(text)).result({ timeout: 60_000 })
}

/** Two calls for every message. */
const effects: Scene['model'] = ({ messages }) =>
  typeof messages.at(-1)?.content === 'string' ? [use('put', 'it'), use('look', 'here')] : 'done'

it('the rows of a rolled-back session match its events, including the archive, and so do those of its fork', async () => {
  const played = player.play(here.pawl, { model: effects })
  for (const text of ['one', 'two', 'three']) await say(played, text)
  await played.session.rollback({ run: 2, by: 'ann', reason: 'too far' })
  await say(played, 'four')
  const { rows } = await rowsMatchEvents(here.stack, played.id)
  expect(rows.archived_messages.length).toBeGreaterThan(0)
  expect(rows.recoveries).toMatchObject([{ kind: 'rolled_back', by: 'ann' }])

  const copy = player.play(here.pawl, { model: effects })
  await played.session.fork({ id: copy.id, run: 4 })
  await say(copy, 'five')
  const forked = await rowsMatchEvents(here.stack, copy.id)
  expect(forked.rows.sessions).toMatchObject([{ parent: played.id }])
  await rowsMatchEvents(here.stack, played.id)
})

it('the rows of a session whose run was restarted match its events', async () => {
  let fails = true
  const played = player.play(here.pawl, {
    model: (request) => {
      if (answersIn(request) === 0) return [use('look', 'here')]
      if (fails) throw new ModelError('no_more', 'no more', { retryable: false })
      return 'done'
    },
  })
  const run = await played.session.send('go')
  expect(await run.settled({ timeout: 60_000 })).toMatchObject({ status: 'failed', code: 'no_more' })
  await rowsMatchEvents(here.stack, played.id)
  fails = false
  await played.session.recover({ strategy: 'restart_run', by: 'ann' })
  await until('it is done', async () => (await played.session.state()).run === 2 && (await played.session.state()).status === 'idle')
  const { rows } = await rowsMatchEvents(here.stack, played.id)
  expect(rows.archived_messages).toMatchObject([{ why: 'restarted' }, { why: 'restarted' }])
})

it('the rows of a session match its events after its workflow was closed, or terminated in the middle of a call', async () => {
  const held = gate()
  const played = player.play(here.pawl, {
    model: effects,
    look: (_input, { run, turn, signal }) => (run === 2 && turn === 1 ? held.pass(signal) : 'ok'),
  })
  const handle = here.temporal.workflow.getHandle(`pawl:${played.id}`)
  await say(played, 'one')
  await played.session.close()
  await here.workflowEnded(played.id)
  await rowsMatchEvents(here.stack, played.id)
  const run = await played.session.send('two')
  await held.reached
  await handle.terminate('by a test')
  held.open()
  await say(played, 'three')
  expect(await run.settled({ timeout: 60_000 })).toMatchObject({ status: 'completed' })
  const { rows } = await rowsMatchEvents(here.stack, played.id)
  expect(rows.recoveries.map(({ kind }) => kind)).toContain('session_resumed')
})

it('the rows of a session that waits for a person match its events, before and after the decision', async () => {
  const { session, id } = asker.play(here.pawl, {
    model: inOrder([use('pay', 'rent', 5), use('pay', 'tax', 6), use('wire', 'it'), use('look', 'here')], 'done'),
    body: (tool) => {
      if (tool === 'wire') throw new Error('no answer')
    },
  })
  const run = await session.send('go')
  const [rent, tax] = await pendingOf(run)
  await rowsMatchEvents(here.stack, id)
  await session.approve(rent!.callId, { digest: rent!.digest!, by: 'ann', note: 'seen' })
  await session.deny(tax!.callId, { digest: tax!.digest!, by: 'bob', reason: 'never' })
  await until('a person is asked for the outcome of the wire', async () =>
    (await session.state()).current?.calls.some(({ status }) => status === 'awaiting_resolution'),
  )
  await rowsMatchEvents(here.stack, id)
  await session.resolve('t_1_1_2', { happened: true, result: 'sent' }, { by: 'ann' })
  await run.result({ timeout: 60_000 })
  const { rows } = await rowsMatchEvents(here.stack, id)
  expect(rows.approvals.map(({ status }) => status)).toEqual(['approved', 'denied'])
})

it.each([
  ['an error that is missing', 'delete from pawl.errors where session_id = $1'],
  ['a message that is missing', "delete from pawl.messages where session_id = $1 and kind = 'tool_results'"],
  [
    'a duplicate message',
    `insert into pawl.messages (session_id, seq, message_id, agent, role, kind, content, at)
     select session_id, seq + 1000, message_id, agent, role, kind, content, at from pawl.messages where session_id = $1 and kind = 'user' limit 1`,
  ],
  ['a different result', `update pawl.tool_calls set result = '"other"' where session_id = $1 and result is not null`],
  ['a call that is still open', "update pawl.tool_calls set status = 'running' where session_id = $1 and status = 'completed'"],
  ['usage that is missing', 'delete from pawl.token_usage where session_id = $1 and turn = 1'],
  ['a different sum of usage', 'update pawl.usage_by_day set calls = calls + 1 where session_id = $1'],
  ['a checkpoint of another state', `update pawl.checkpoints set state = replace(state, '"idle"', '"running"') where session_id = $1`],
  ['a session that counts another turn', 'update pawl.sessions set turns = turns + 1 where session_id = $1'],
  ['an event of another text', `update pawl.events set json = replace(json, '"once more"', '"once less"') where session_id = $1`],
  ['an event of another type', `update pawl.events set type = 'tool_failed' where session_id = $1 and type = 'tool_completed'`],
  [
    'an event that was set aside',
    "insert into pawl.stray_events (session_id, epoch, seq, prev, digest, json) values ($1, 'other', 1, '', 'x', '{}')",
  ],
  ['commits with a hole', 'update pawl.commits set last_seq = last_seq - 1 where session_id = $1'],
])('the comparison of rows and events notices %s', async (_what, sql) => {
  const id = await aSession()
  await rowsMatchEvents(here.stack, id)
  const { rowCount } = await client.query(sql, [id])
  expect(rowCount).toBeGreaterThan(0)
  await expect(rowsMatchEvents(here.stack, id)).rejects.toThrow(/expected/)
})
