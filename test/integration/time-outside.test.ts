// Scheduled messages over HTTP, with tenants, and in the terminal.
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { createHandler } from 'pawl/service'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { stage } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { type WebClient, webClient } from '../support/web.ts'
import { runPawl } from './cli/processes.ts'

const player = stage()
let here: Deployment
let web: Record<'acme' | 'other' | 'reader', WebClient>

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [player.agent] })
  const handler = createHandler({
    pawl: here.pawl,
    logger: SILENT,
    authorize({ headers }) {
      const [, key = ''] = (headers.get('authorization') ?? '').split(' ')
      const scopes = key === 'reader' ? (['read'] as const) : (['read', 'send', 'operate'] as const)
      return { identity: key, tenant: key === 'other' ? 'other' : 'acme', scopes: [...scopes] }
    },
  })
  web = { acme: webClient(handler, 'acme'), other: webClient(handler, 'other'), reader: webClient(handler, 'reader') }
})
afterAll(() => here?.stop())

const said = ({ stdout, stderr }: { stdout: string; stderr: string }): string => stdout + stderr

async function pawl(...words: string[]): Promise<string> {
  const { temporalAddress, databaseUrl } = inject('stack')
  return said(
    await runPawl([...words, '--task-queue', here.taskQueue], {
      cwd: tmpdir(),
      env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl },
    }),
  )
}

it('a message is scheduled, listed and taken back over HTTP, by its tenant only', async () => {
  const { id } = player.play(here.pawl, { model: () => 'done' }, { id: `acme:${randomUUID()}` })
  const path = `/v1/sessions/${encodeURIComponent(id)}`
  const later = { agent: 'player', content: 'later', messageId: 'm1', delay: '1h' }
  expect(await web.acme.post(`${path}/messages`, later)).toMatchObject({ status: 202, body: { messageId: 'm1' } })
  await until('it is scheduled', async () => (await here.pawl.session(id).scheduled()).length === 1)
  expect(await web.acme.get(`${path}/scheduled`)).toMatchObject({
    status: 200,
    body: { items: [{ messageId: 'm1', content: 'later', by: 'acme', dueAt: expect.stringMatching(/Z$/) }] },
  })
  expect(await web.other.get(`${path}/scheduled`)).toMatchObject({ status: 404 })
  expect(await web.other.post(`${path}/messages/m1/unschedule`, {})).toMatchObject({ status: 404 })
  expect(await web.reader.post(`${path}/messages/m1/unschedule`, {})).toMatchObject({ status: 403 })
  expect(await web.acme.post(`${path}/close`)).toMatchObject({ status: 409, body: { code: 'messages_scheduled' } })
  const repeated = { 'idempotency-key': 'k1' }
  expect(await web.acme.post(`${path}/messages/m1/unschedule`, { reason: 'no' }, repeated)).toMatchObject({ status: 204 })
  expect(await web.acme.post(`${path}/messages/m1/unschedule`, { reason: 'no' }, repeated)).toMatchObject({ status: 204 })
  expect(await web.acme.post(`${path}/messages/m1/unschedule`, {})).toMatchObject({ body: { code: 'not_scheduled' } })
  for (const wrong of [{ at: 'tomorrow' }, { at: '2026-12-24T18:00:00' }, { delay: 'soon' }, { at: '2200-01-01T00:00:00Z' }]) {
    expect(await web.acme.post(`${path}/messages`, { ...later, delay: undefined, ...wrong }), JSON.stringify(wrong)).toMatchObject({
      status: 400,
    })
  }
  expect(
    await web.acme.post(`${path}/messages`, { ...later, messageId: 'm2', at: new Date(Date.now() + 60_000).toISOString(), delay: '1m' }),
  ).toMatchObject({
    status: 400,
  })
  await web.acme.post(`${path}/messages`, { ...later, messageId: 'm3' })
  await until('it is scheduled', async () => (await here.pawl.session(id).scheduled()).length === 1)
  expect(await web.acme.post(`${path}/close`, { unschedule: true })).toMatchObject({ status: 202 })
  await here.workflowEnded(id)
})

it('a message is scheduled, listed and taken back in the terminal, and shown', async () => {
  const { id, session } = player.play(here.pawl, { model: () => 'done' })
  expect(await pawl('send', id, 'Has it arrived?', '--agent', 'player', '--delay', '2d', '--message-id', 'm1')).toContain('m1')
  await until('it is scheduled', async () => (await session.scheduled()).length === 1)
  expect(await pawl('scheduled', id)).toMatch(/20\d\d-.*m1.*Has it arrived\?/)
  expect(JSON.parse(await pawl('scheduled', id, '--json'))).toMatchObject({ sessionId: id, messages: [{ messageId: 'm1' }] })
  await until('it is stored', async () => (await here.pawl.messages({ session: id })).items.some(({ kind }) => kind === 'scheduled'))
  expect(await pawl('show', id)).toMatch(/scheduled +1 message, the first at 20/)
  expect(await pawl('unschedule', id, 'm1', '--reason', 'it has')).toContain('message m1 is not delivered')
  expect(await pawl('scheduled', id)).toContain('has no scheduled messages')
  expect(await pawl('send', id, 'x', '--at', 'noon')).toMatch(/offset/)
})

it('a schedule is made and changed over HTTP by its tenant only, and by callers who may', async () => {
  const id = `acme:${randomUUID()}`
  const path = `/v1/schedules/${encodeURIComponent(id)}`
  const body = { id, agent: 'player', message: 'tick', cron: '0 9 * * MON', timeZone: 'Europe/Berlin', overlap: 'skip' }
  expect(await web.other.post('/v1/schedules', body)).toMatchObject({ status: 400 })
  expect(await web.reader.post('/v1/schedules', body)).toMatchObject({ status: 403 })
  expect(await web.acme.post('/v1/schedules', { ...body, session: 'other:s' })).toMatchObject({ status: 400 })
  expect(await web.acme.post('/v1/schedules', { ...body, cron: 'nonsense' })).toMatchObject({
    status: 400,
    body: { code: 'invalid_schedule' },
  })
  expect(await web.acme.post('/v1/schedules', { ...body, cron: '0 0 31 2 *' })).toMatchObject({ status: 409, body: { code: 'never_due' } })
  expect(await web.acme.post('/v1/schedules', { ...body, timeZone: 'Mars/Olympus' })).toMatchObject({ status: 400 })
  expect(await web.acme.post('/v1/schedules', body)).toMatchObject({
    body: { id, agent: 'player', overlap: 'skip', by: 'acme', session: null },
  })
  expect(await web.acme.post('/v1/schedules', body)).toMatchObject({ status: 409, body: { code: 'schedule_exists' } })
  const ids = async (client: WebClient) => (await client.get<{ items: { id: string }[] }>('/v1/schedules')).body.items.map((one) => one.id)
  await until('it is listed', async () => (await ids(web.acme)).includes(id))
  expect(await ids(web.other)).not.toContain(id)
  for (const what of ['', '/pause', '/trigger', '/delete']) {
    const answered = what === '' ? web.other.get(path) : web.other.post(`${path}${what}`)
    expect(await answered, what).toMatchObject({ status: 404, body: { code: 'schedule_not_found' } })
  }
  expect(await web.acme.post(`${path}/pause`, { reason: 'holiday' })).toMatchObject({ status: 204 })
  expect(await web.reader.get(path)).toMatchObject({ status: 200, body: { paused: true, note: 'paused by acme: holiday', next: [] } })
  expect(await web.acme.post(`${path}/unpause`)).toMatchObject({ status: 204 })
  expect(await web.acme.post(`${path}/delete`)).toMatchObject({ status: 204 })
  expect(await web.acme.get(path)).toMatchObject({ status: 404 })
})

it('a schedule is made, listed, triggered, paused and deleted in the terminal', async () => {
  const id = `cli-${randomUUID()}`
  const { session } = player.play(here.pawl, { model: () => 'done' })
  const created = await pawl(
    'schedules',
    'create',
    id,
    'tick',
    '--agent',
    'player',
    '--cron',
    '0 9 * * MON',
    '--time-zone',
    'Europe/Berlin',
    '--session',
    session.id,
  )
  expect(created).toMatch(/is created; it is due next at 20/)
  await until('it is listed', async () => (await pawl('schedules', 'list')).includes(id))
  expect(await pawl('schedules', 'show', id)).toMatch(/0 9 \* \* MON Europe\/Berlin/)
  expect((await pawl('schedules', 'times', id, '--limit', '3')).trim().split('\n')).toHaveLength(3)
  await pawl('schedules', 'trigger', id)
  await until('its message has arrived', async () => (await session.state().catch(() => undefined))?.run === 1)
  expect(await pawl('schedules', 'pause', id, '--reason', 'holiday')).toContain('is paused')
  expect(await pawl('schedules', 'unpause', id)).toContain('is unpaused')
  expect(await pawl('schedules', 'delete', id)).toContain('is deleted')
  expect(await pawl('schedules', 'show', id)).toContain('pawl schedules list')
})
