// The comparison that other tests rely on: it agrees to a sound session, and notices whatever is wrong with any row.
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { inOrder, type Stage, stage, use } from '../support/scenes.ts'

let here: Deployment
let player: Stage
let client: pg.Client

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
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
  await (await session.send('go', { isNew: true })).result({ timeoutMs: 60_000 })
  await (await session.send('once more')).result({ timeoutMs: 60_000 })
  return id
}

it('a sound session matches, in every table', async () => {
  const { events, state, rows } = await rowsMatchEvents(here.stack, await aSession())
  expect(state).toMatchObject({ status: 'idle', run: 2 })
  expect(rows.events).toHaveLength(events.length)
  expect(rows.errors).toMatchObject([{ attempt: 1, message: 'cannot look' }])
  expect(rows.tool_calls.map(({ status }) => status).toSorted()).toEqual(['completed', 'completed', 'replayed'])
  for (const table of ['messages', 'token_usage', 'checkpoints', 'sessions'] as const) expect(rows[table].length, table).toBeGreaterThan(0)
})

it.each([
  ['an error that is missing', 'delete from pawl.errors where session_id = $1'],
  ['a message that is missing', "delete from pawl.messages where session_id = $1 and kind = 'tool_results'"],
  [
    'a message that is there twice',
    `insert into pawl.messages (session_id, seq, message_id, agent, role, kind, content, at)
     select session_id, seq + 1000, message_id, agent, role, kind, content, at from pawl.messages where session_id = $1 and kind = 'user' limit 1`,
  ],
  ['a result that is another', `update pawl.tool_calls set result = '"other"' where session_id = $1 and result is not null`],
  ['a call that is still open', "update pawl.tool_calls set status = 'running' where session_id = $1 and status = 'completed'"],
  ['usage that is missing', 'delete from pawl.token_usage where session_id = $1 and turn = 1'],
  ['a checkpoint of another state', `update pawl.checkpoints set state = replace(state, '"idle"', '"running"') where session_id = $1`],
  ['a session that counts another turn', 'update pawl.sessions set turns = turns + 1 where session_id = $1'],
  ['an event of another text', `update pawl.events set json = replace(json, '"once more"', '"once less"') where session_id = $1`],
  ['an event of another type', `update pawl.events set type = 'tool_failed' where session_id = $1 and type = 'tool_completed'`],
  [
    'an event that was set aside',
    "insert into pawl.stray_events (session_id, epoch, seq, prev, digest, json) values ($1, 'other', 1, '', 'x', '{}')",
  ],
  ['commits with a hole', 'update pawl.commits set last_seq = last_seq - 1 where session_id = $1'],
])('%s is noticed', async (_what, sql) => {
  const id = await aSession()
  await rowsMatchEvents(here.stack, id)
  const { rowCount } = await client.query(sql, [id])
  expect(rowCount).toBeGreaterThan(0)
  await expect(rowsMatchEvents(here.stack, id)).rejects.toThrow(/expected/)
})
