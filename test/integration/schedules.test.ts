// Schedules: messages to sessions at regular times, over Temporal's schedules.
import { randomUUID } from 'node:crypto'
import { doctor, type InvalidOptionError, type NewSchedule } from 'pawl/client'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { occurrenceIdOf, temporalIdOf } from '../../src/session/protocol/occurrence.ts'
import { SIGNALS, WORKFLOW_TYPE, workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { saidIn, type Stage, stage } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { OWN_STACK_MS, startOwnStack } from '../support/temporal-on-postgres.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }
const LIMIT = { timeout: 180_000 }
const OCCURRENCES = size(50, 1_000)
const ARRIVES_WITHIN_MS = size(150_000, 900_000)
const ARRIVAL = { timeout: ARRIVES_WITHIN_MS + 180_000 }

let here: Deployment
let player: Stage
let worker: RunningWorker

beforeAll(async () => {
  here = await deploy()
  player = stage({ name: 'player' })
  worker = await here.startWorker({ agents: [player.agent, echo.agent] })
})
afterAll(() => here?.stop())

/** Sessions that no test has prepared. */
const echo = stage({ name: 'echo' })

const made = new Set<string>()
afterEach(async () => {
  for (const id of made) await here.pawl.schedules.delete(id).catch(() => undefined)
  made.clear()
})

function idFor(name: string): string {
  const id = `${name}-${randomUUID().slice(0, 8)}`
  made.add(id)
  return id
}

/** A schedule that is due once a year unless a test triggers it. */
const yearly = (id: string, more: Partial<NewSchedule> = {}): NewSchedule => ({
  id,
  agent: 'player',
  message: 'tick',
  cron: '0 0 1 1 *',
  ...more,
})

const receivedBy = async (id: string) => ofType(await eventsOf(here.pawl.session(id)), 'message_received')

/** Triggers it in a second of its own, because two triggers within one second count as one. */
async function trigger(id: string, options?: { requestId: string }): Promise<void> {
  const next = Math.ceil(Date.now() / 1_000) * 1_000 + 50
  await new Promise((resolve) => setTimeout(resolve, next - Date.now()))
  await here.pawl.schedules.trigger(id, options)
}

it('a schedule sends its message at each of its times to one session, until it is paused', LIMIT, async () => {
  const id = idFor('every')
  const { session, requests } = player.play(here.pawl, { model: () => 'tock' })
  const schedule = await here.pawl.schedules.create({
    ...{ id, agent: 'player', message: 'tick', every: '1s', session: session.id, metadata: { n: 1 }, tags: ['clock'], by: 'ann' },
  })
  expect(schedule).toMatchObject({ id, agent: 'player', session: session.id, every: '1s', overlap: 'queue', timeZone: 'UTC', by: 'ann' })
  expect(schedule.next.length).toBeGreaterThan(0)
  await until('it has sent three', async () => (await receivedBy(session.id).catch(() => [])).length >= 3, 30_000)
  await here.pawl.schedules.pause(id, { by: 'ann', reason: 'too often' })
  expect(await here.pawl.schedules.get(id)).toMatchObject({ paused: true, note: 'paused by ann: too often', next: [] })
  await until('it has come to rest', async () => (await session.state()).status === 'idle' && (await session.state()).queued === 0)
  const received = await receivedBy(session.id)
  // Each occurrence is a workflow of its own, so two within a second may overtake each other.
  const seconds = received.map(({ messageId }) => Date.parse(messageId.slice(id.length + 1)) / 1_000).toSorted((a, b) => a - b)
  expect(seconds).toEqual(Array.from(seconds, (_, n) => (seconds[0] ?? 0) + n))
  expect(received[0]).toMatchObject({ content: 'tick', by: `schedule ${id}`, metadata: { n: 1 } })
  expect(saidIn(requests.at(-1) as never).length).toBeGreaterThanOrEqual(3)
  expect((await session.state()).tags).toEqual(['clock'])
  const { rows } = await rowsMatchEvents(here.stack, session.id)
  expect(rows.messages.filter(({ kind }) => kind === 'user').map((row) => row.by)).toEqual(received.map(() => `schedule ${id}`))
  await here.pawl.schedules.unpause(id)
  await until('it sends again', async () => (await receivedBy(session.id)).length > received.length, 30_000)
})

it('each occurrence has a session of its own unless one is named, with the same id as its message', LIMIT, async () => {
  const id = idFor('new')
  await here.pawl.schedules.create(yearly(id, { agent: 'echo', context: { tenantId: 'acme' } }))
  await trigger(id)
  const { recent } = await until('it has started', async () => {
    const schedule = await here.pawl.schedules.get(id)
    return schedule.recent.length > 0 && schedule
  })
  const sessionId = occurrenceIdOf(id, `${recent[0]?.time.toISOString().slice(0, 19)}Z`)
  const received = await until('the session has it', async () => (await receivedBy(sessionId).catch(() => []))[0])
  expect(received?.messageId).toBe(sessionId)
  expect(await here.pawl.session(sessionId).state()).toMatchObject({ agent: 'echo', context: { tenantId: 'acme' } })
})

it.each(['queue', 'skip', 'interrupt'] as const)(
  'an occurrence that finds a run in progress does what its overlap says: %s',
  LIMIT,
  async (overlap) => {
    const id = idFor(overlap)
    const door = gate()
    const { session, requests } = player.play(here.pawl, {
      async model(_, ctx) {
        if (requests.length === 1) await door.pass(ctx.signal)
        return 'done'
      },
    })
    await here.pawl.schedules.create(yearly(id, { session: session.id, overlap }))
    const first = await session.send('hello')
    await door.reached
    await trigger(id)
    const events = () => eventsOf(session)
    if (overlap === 'skip') {
      const rejected = await until('it is skipped', async () => ofType(await events(), 'message_rejected')[0])
      expect(rejected).toMatchObject({ code: 'overlap_skipped', messageId: expect.stringContaining(id) })
      door.open()
      await first.result(TIMEOUT)
      // The same occurrence again, as a repeated attempt would send it.
      const again = { messageId: rejected?.messageId, content: 'tick', unlessBusy: true }
      await here.temporal.workflow.getHandle(workflowIdOf(session.id)).signal(SIGNALS.message, again)
      await trigger(id)
      await until('the next one is not', async () => ofType(await events(), 'message_received').length === 2)
      return
    }
    await until('it has arrived', async () => ofType(await events(), 'message_received').length === 2)
    if (overlap === 'interrupt') await expect(first.result(TIMEOUT)).rejects.toMatchObject({ code: 'run_interrupted' })
    door.open()
    const second = ofType(await events(), 'message_received')[1]?.messageId ?? ''
    expect((await session.run(second).result(TIMEOUT)).text).toBe('done')
  },
)

it('an occurrence that was skipped is not sent after all to a session that has closed since', LIMIT, async () => {
  const id = idFor('skipped')
  const door = gate()
  const { session, requests } = player.play(here.pawl, {
    async model(_, ctx) {
      if (requests.length === 1) await door.pass(ctx.signal)
      return 'done'
    },
  })
  await here.pawl.schedules.create(yearly(id, { session: session.id, overlap: 'skip' }))
  const first = await session.send('hello')
  await door.reached
  await trigger(id)
  const rejected = await until('it is skipped', async () => ofType(await eventsOf(session), 'message_rejected')[0])
  door.open()
  await first.result(TIMEOUT)
  await session.close()
  await here.workflowEnded(session.id)
  // A repeated attempt of the same occurrence, and then another message, so that the session must open.
  const send = (message: object) =>
    here.temporal.workflow.signalWithStart(WORKFLOW_TYPE, {
      workflowId: workflowIdOf(session.id),
      taskQueue: here.taskQueue,
      args: [{ sessionId: session.id }],
      signal: SIGNALS.message,
      signalArgs: [message],
    })
  await send({ messageId: rejected?.messageId, content: 'tick', unlessBusy: true })
  await (await session.send('again', { messageId: 'again' })).result(TIMEOUT)
  expect((await receivedBy(session.id)).map(({ messageId }) => messageId)).not.toContain(rejected?.messageId)
})

it('every one of many occurrences arrives once, although the worker is restarted in between', ARRIVAL, async () => {
  const id = idFor('many')
  const { session } = player.play(here.pawl, { model: () => 'done' })
  await here.pawl.schedules.create({ id, agent: 'player', message: 'tick', every: '1m', session: session.id, paused: true })
  const start = new Date('2026-01-01T00:00:30Z')
  const end = new Date(start.getTime() + OCCURRENCES * 60_000)
  await here.temporal.schedule.getHandle(temporalIdOf(id)).backfill({ start, end, overlap: 'ALLOW_ALL' })
  for (let restarts = 0; restarts < 3; restarts++) {
    await new Promise((resolve) => setTimeout(resolve, 700))
    await worker.stop()
    worker = await here.startWorker({ agents: [player.agent, echo.agent] })
  }
  await until(
    'all have arrived',
    async () => {
      const { length } = await receivedBy(session.id).catch(() => [])
      return length >= OCCURRENCES || Promise.reject(new Error(`${length} have`))
    },
    ARRIVES_WITHIN_MS,
  )
  await until('it has come to rest', async () => (await session.state()).queued === 0 && (await session.state()).status === 'idle', 60_000)
  const ids = (await receivedBy(session.id)).map(({ messageId }) => messageId)
  const wanted = Array.from({ length: OCCURRENCES }, (_, n) => {
    return occurrenceIdOf(id, `${new Date(Date.parse('2026-01-01T00:01:00Z') + n * 60_000).toISOString().slice(0, 19)}Z`)
  })
  expect(ids.toSorted()).toEqual(wanted.toSorted())
})

it('schedules are listed by id, also only those with a prefix, and deleted; their sessions stay', LIMIT, async () => {
  const [one, other] = [idFor('acme:b'), idFor('acme:a')]
  await here.pawl.schedules.create(yearly(one))
  await here.pawl.schedules.create(yearly(other))
  const listed = await until('both are listed', async () => {
    const { items: found } = await here.pawl.schedules.list({ idPrefix: 'acme:' })
    return found.length >= 2 && found
  })
  expect(listed.map(({ id }) => id)).toEqual([other, one])
  expect(listed[0]).toMatchObject({ agent: 'player', session: null, cron: '0 0 1 1 *', paused: false })
  await here.pawl.schedules.delete(one)
  await expect(here.pawl.schedules.get(one)).rejects.toMatchObject({ code: 'schedule_not_found' })
  for (const call of ['pause', 'unpause', 'trigger', 'delete', 'times'] as const) {
    await expect(here.pawl.schedules[call](one), call).rejects.toMatchObject({ code: 'schedule_not_found' })
  }
})

it('schedules are listed in pages, each once, and only those of pawl', LIMIT, async () => {
  const prefix = idFor('paged_')
  const ids = Array.from({ length: 7 }, (_, n) => `${prefix}:${n}`)
  for (const id of ids.toReversed()) await here.pawl.schedules.create(yearly(id))
  // SQL would take the underscore for any character.
  const others = [`${prefix.replaceAll('_', '-')}:x`]
  for (const id of others) await here.pawl.schedules.create(yearly(id))
  const foreign = await here.temporal.schedule.create({
    scheduleId: `${prefix}:of-another-program`,
    spec: { cronExpressions: ['0 0 1 1 *'] },
    action: { type: 'startWorkflow', workflowType: 'none', taskQueue: 'none' },
    state: { paused: true },
  })
  const list = (limit: number, cursor?: string) => here.pawl.schedules.list({ idPrefix: prefix, limit, cursor })
  await until('all are listed', async () => (await list(100)).items.length === ids.length)
  const pages: string[][] = []
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await list(3, cursor)
    pages.push(page.items.map(({ id }) => id))
    cursor = page.cursor
  }
  expect(pages).toEqual([ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)])
  const all: string[] = []
  for await (const { id } of list(2)) all.push(id)
  expect(all).toEqual(ids)
  await expect(here.pawl.schedules.list({ cursor: 'none' })).rejects.toMatchObject({ code: 'invalid_cursor' })
  await expect(here.pawl.schedules.list({ limit: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
  await foreign.delete()
  for (const id of [...ids, ...others]) await here.pawl.schedules.delete(id)
})

it('a request to start an occurrence starts one, however often it is sent', LIMIT, async () => {
  const id = idFor('once')
  await here.pawl.schedules.create(yearly(id, { session: `${id}:session` }))
  for (const requestId of ['first', 'first', 'second', 'first', 'third']) await trigger(id, { requestId })
  await until('the last one is received', async () => (await receivedBy(`${id}:session`)).length >= 3)
  expect(await receivedBy(`${id}:session`)).toHaveLength(3)
  await expect(here.pawl.schedules.trigger(id, { requestId: '' })).rejects.toMatchObject({ code: 'invalid_option' })
})

it('a time in a daylight-saving gap is left out, and one that occurs twice is due once, the second time', LIMIT, async () => {
  const times = async (more: Partial<NewSchedule>, since: string, until: string): Promise<string[]> => {
    const id = idFor('dst')
    await here.pawl.schedules.create({ id, agent: 'player', message: 'tick', ...more, timeZone: 'Europe/Berlin' })
    const found = await here.pawl.schedules.times(id, { since: new Date(since), until: new Date(until) })
    return found.map((time) => time.toISOString())
  }
  // On 28 March 2027, clocks go from 02:00 to 03:00, and on 31 October 2027 from 03:00 back to 02:00.
  const spring = ['2027-03-27T23:00:00Z', '2027-03-28T22:00:00Z'] as const
  const autumn = ['2027-10-30T22:00:00Z', '2027-10-31T23:00:00Z'] as const
  expect(await times({ calendar: { hour: 2, minute: 30 } }, ...spring)).toEqual([])
  expect(await times({ cron: '30 2 * * *' }, ...spring)).toEqual([])
  expect(await times({ calendar: { hour: 3, minute: 30 } }, ...spring)).toEqual(['2027-03-28T01:30:00.000Z'])
  expect(await times({ calendar: { hour: 2, minute: 30 } }, ...autumn)).toEqual(['2027-10-31T01:30:00.000Z'])
  expect(await times({ cron: '30 2 * * *' }, ...autumn)).toEqual(['2027-10-31T01:30:00.000Z'])
})

it('a schedule of an agent that no worker serves opens a session that says so', LIMIT, async () => {
  const id = idFor('unserved')
  await here.pawl.schedules.create(yearly(id, { agent: 'missing', session: `${id}:session` }))
  await trigger(id)
  const report = await until('the session waits', async () => {
    const status = await here.pawl
      .session(`${id}:session`)
      .status()
      .catch(() => undefined)
    return status && JSON.stringify(status.waitsFor).includes('missing') && status
  })
  expect(report.status).toBe('running')
  await here.temporal.workflow.getHandle(workflowIdOf(`${id}:session`)).terminate()
})

it('the doctor finds a schedule whose occurrence ended without sending its message', LIMIT, async () => {
  const taskQueue = `deserted-${randomUUID().slice(0, 8)}`
  const id = `lost-${randomUUID().slice(0, 8)}`
  const pawl = await here.connect({ taskQueue })
  const { temporalAddress: address, namespace, databaseUrl: postgres } = here.stack
  const examine = async () => {
    const { checks } = await doctor({ temporal: { address, namespace }, postgres, taskQueue })
    return checks.find(({ check }) => check === 'schedules')
  }
  await pawl.schedules.create(yearly(id))
  expect(await examine()).toMatchObject({ level: 'ok' })
  await pawl.schedules.trigger(id)
  const { recent } = await until('it has started', async () => {
    const schedule = await pawl.schedules.get(id)
    return schedule.recent.length > 0 && schedule
  })
  const time = `${recent[0]?.time.toISOString().slice(0, 19)}Z`
  await here.temporal.workflow.getHandle(`${temporalIdOf(id)}-${time}`).terminate('by the test')
  const found = await until('the doctor sees it', async () => {
    const check = await examine()
    return check?.level === 'warn' && check
  })
  expect(found.measured).toMatch(new RegExp(`^1 occurrence of the last day failed: ${id}, `))
  await pawl.schedules.delete(id)
})

it('a schedule is refused if its times, its message or its id are impossible, and nothing is left of it', LIMIT, async () => {
  const id = idFor('wrong')
  const create = (more: object) => here.pawl.schedules.create({ ...yearly(id), ...more } as NewSchedule)
  const invalid = { code: 'invalid_option' } satisfies Partial<InvalidOptionError>
  const now = { cron: undefined }
  for (const more of [
    { id: 'no spaces' },
    { id: 'x'.repeat(171) },
    { agent: '' },
    { ...now },
    { every: '1h' },
    { ...now, every: '10ms' },
    { cron: '' },
    { timeZone: 'Mars/Olympus' },
    { session: 'a b' },
    { overlap: 'drop' },
    { catchUp: '1s' },
    { ...now, calendar: { hours: 2 } },
    { ...now, calendar: {} },
    { paused: 'yes' },
    { stranger: 1 },
  ]) {
    await expect(create(more), JSON.stringify(more)).rejects.toMatchObject(invalid)
  }
  for (const cron of ['nonsense', '61 * * * *', '* * * *', '0 0 * * FUNDAY']) {
    await expect(create({ cron }), cron).rejects.toMatchObject({ code: 'invalid_schedule' })
  }
  await expect(create({ ...now, calendar: { month: 'SMARCH' } })).rejects.toMatchObject({ code: 'invalid_schedule' })
  await expect(create({ cron: '0 0 31 2 *' })).rejects.toMatchObject({ code: 'never_due' })
  await expect(create({ message: ' ' })).rejects.toMatchObject({ code: 'empty_message' })
  await expect(create({ message: 'x'.repeat(200_000) })).rejects.toMatchObject({ code: 'message_too_large' })
  await expect(create({ context: 'x'.repeat(200_000) })).rejects.toMatchObject({ code: 'invalid_context' })
  await expect(here.pawl.schedules.get(id)).rejects.toMatchObject({ code: 'schedule_not_found' })
  await create({})
  await expect(create({})).rejects.toMatchObject({ code: 'schedule_exists' })
})

it('occurrences that were due while Temporal was down arrive once it is back, each once', {
  timeout: size(180_000, 900_000) + OWN_STACK_MS,
}, async () => {
  const stack = await startOwnStack()
  const own = await deploy({ stack })
  try {
    const clock = stage({ name: 'clock' })
    await own.startWorker({ agents: [clock.agent] })
    const { session } = clock.play(own.pawl, { model: () => 'tock' })
    await own.pawl.schedules.create({ id: 'clock', agent: 'clock', message: 'tick', every: '1s', session: session.id })
    const received = async () => ofType(await eventsOf(session), 'message_received').map(({ messageId }) => messageId)
    await until('it is due', async () => (await received().catch(() => [])).length >= 2, 30_000)
    await stack.temporal.stop('crash')
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    await stack.temporal.start()
    const { length } = await until('it is back', () => received(), 60_000)
    await until('later ones arrive', async () => (await received()).length >= length + 6, 60_000)
    await own.pawl.schedules.pause('clock')
    await until(
      'it has come to rest',
      async () => (await session.state()).queued === 0 && (await session.state()).status === 'idle',
      60_000,
    )
    const seconds = (await received()).map((id) => Date.parse(id.slice('clock:'.length)) / 1_000).toSorted((a, b) => a - b)
    expect(seconds).toEqual(Array.from(seconds, (_, n) => (seconds[0] ?? 0) + n))

    // Many at once, with the server killed in between.
    const wanted = size(12, 1_000)
    const many = clock.play(own.pawl, { model: () => 'tock' }).session
    await own.pawl.schedules.create({ id: 'many', agent: 'clock', message: 'tick', every: '1m', session: many.id, paused: true })
    const start = new Date('2026-01-01T00:00:30Z')
    const end = new Date(start.getTime() + wanted * 60_000)
    await own.temporal.schedule.getHandle(temporalIdOf('many')).backfill({ start, end, overlap: 'ALLOW_ALL' })
    const arrived = async () => ofType(await eventsOf(many), 'message_received').map(({ messageId }) => messageId)
    for (const share of [0.1, 0.5, 0.8]) {
      await until('some have arrived', async () => (await arrived().catch(() => [])).length >= wanted * share, ARRIVES_WITHIN_MS)
      await stack.temporal.stop('crash')
      await new Promise((resolve) => setTimeout(resolve, 500))
      await stack.temporal.start()
    }
    await until('all have arrived', async () => (await arrived().catch(() => [])).length >= wanted, ARRIVES_WITHIN_MS)
    await until('it has come to rest', async () => (await many.state()).queued === 0 && (await many.state()).status === 'idle', 60_000)
    const times = Array.from({ length: wanted }, (_, n) => `${new Date(start.getTime() + 30_000 + n * 60_000).toISOString().slice(0, 19)}Z`)
    expect((await arrived()).toSorted()).toEqual(times.map((time) => occurrenceIdOf('many', time)).toSorted())
  } finally {
    await own.stop()
    await stack.stop()
  }
})
