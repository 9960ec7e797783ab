// Sessions that are started as new ones although they exist: the message reaches the session that is there, and no effect happens before.
import { randomUUID } from 'node:crypto'
import type { ModelCallContext, ModelRequest } from 'pawl'
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { type Played, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { OTHER_BUILD } from '../support/other-build.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 30_000 }

let schema: OwnSchema
let here: Deployment
let player: Stage
let store: Store
const logged: { level: string; message: string }[] = []

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  schema = await ownSchema(databaseUrl, 'isnew')
  here = await deploy({ schema: schema.name })
  player = stage()
  store = openStore({ postgres: databaseUrl, schema: schema.name })
  const line = (level: string) => (_: object, message?: string) => void logged.push({ level, message: message ?? '' })
  const logger = { debug: () => undefined, info: () => undefined, warn: line('warn'), error: line('error') }
  await here.startWorker({ agents: [player.agent], logger })
})
afterAll(async () => {
  await here?.stop()
  await store?.close()
  await schema?.close()
})

/** A session that pays once for each message, and says what it has heard so far. */
function play(id = `new-${randomUUID()}`): Played {
  return player.play(
    here.pawl,
    { model: (request) => (request.turn === 1 ? [use('pay', saidIn(request).at(-1) ?? '')] : saidIn(request).join(', ')) },
    { id },
  )
}

/** What a model says that is cut off. */
const waitFor = (signal: AbortSignal): Promise<string> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))

/** The session after its first message, with its workflow ended. */
async function closed(): Promise<Played> {
  const played = play()
  await (await played.session.send('one')).result(TIMEOUT)
  await played.session.close()
  await here.workflowEnded(played.id)
  return played
}

describe('a message that is sent with isNew to a session that exists', () => {
  it('an existing session answers a message sent with isNew, and its effect happens once, in its own past', async () => {
    const { session, id, count } = await closed()
    const run = await session.send('two', { isNew: true })
    expect(await run.result(TIMEOUT)).toMatchObject({ text: 'one, two', run: 2 })
    expect(count('pay')).toBe(2)
    const events = await eventsOf(session)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
    expect(ofType(events, 'session_started')).toHaveLength(1)
    const { seq, epoch } = await foldedState(session)
    await until('all of it is stored', async () => (await store.head(id))?.seq === seq)
    expect(await store.head(id)).toMatchObject({ epoch })
    const strays = await schema.query('select seq from {schema}.stray_events where session_id = $1', [id])
    expect(strays.length).toBeGreaterThan(0)
    expect(logged).toContainEqual({ level: 'error', message: 'a session has two pasts: these events were set aside in stray_events' })
  })

  it('an existing session that gets a message with isNew runs no read in a past that is not its own, however quick', async () => {
    const looking = (request: ModelRequest) => {
      const said = saidIn(request).at(-1) ?? ''
      return request.turn > 1 ? 'seen' : Array.from({ length: said === 'many' ? 20 : 1 }, () => use('look', said))
    }
    const warm = player.play(here.pawl, { model: looking })
    for (let round = 0; round < 3; round += 1) await (await warm.session.send('many')).result(TIMEOUT)
    const { session, id, entries } = player.play(here.pawl, { model: looking })
    await (await session.send('one')).result(TIMEOUT)
    await session.close()
    await here.workflowEnded(id)
    await (await session.send('two', { isNew: true })).result(TIMEOUT)
    expect(entries.map(({ callId }) => callId)).toEqual(['t_1_1_0', 't_2_1_0'])
  })

  it('a message sent with isNew by several clients at once is answered once, and none of their messages is lost', async () => {
    const { session, count } = await closed()
    const runs = await Promise.all(['two', 'three', 'four'].map((text) => session.send(text, { isNew: true })))
    for (const run of runs) expect((await run.result(TIMEOUT)).text).toMatch(/^one, /)
    const said = ofType(await eventsOf(session), 'message_received').map(({ content }) => content)
    expect(said.toSorted()).toEqual(['four', 'one', 'three', 'two'])
    expect(count('pay')).toBeLessThanOrEqual(4)
  })

  it('an existing session answers a message sent with isNew even if its workflow is started from elsewhere', async () => {
    const { session, id } = await closed()
    await here.temporal.workflow.signalWithStart('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      args: [{ sessionId: id, agent: 'player', isNew: true }],
      signal: 'message',
      signalArgs: [{ messageId: 'elsewhere', content: 'two' }],
    })
    expect(await session.run('elsewhere').result(TIMEOUT)).toMatchObject({ text: 'one, two' })
  })

  it('an interrupt that follows a message sent with isNew interrupts its run in the session that exists', async () => {
    const own = await deploy({ schema: schema.name })
    try {
      const waiting = {
        model: (request: ModelRequest, ctx: ModelCallContext) => (saidIn(request).at(-1) === 'two' ? waitFor(ctx.signal) : 'hello'),
      }
      const first = await own.startWorker({ agents: [player.agent] })
      const { session, id } = player.play(own.pawl, waiting)
      await (await session.send('one')).result(TIMEOUT)
      await session.close()
      await own.workflowEnded(id)
      await first.stop()
      const run = await session.send('two', { isNew: true })
      await session.interrupt({ reason: 'enough' })
      await own.startWorker({ agents: [player.agent] })
      await expect(run.result(TIMEOUT)).rejects.toMatchObject({ code: 'run_interrupted' })
      expect(await (await session.send('three')).result(TIMEOUT)).toMatchObject({ text: 'hello' })
    } finally {
      await own.stop()
    }
  })

  it.each([{ end: 'terminated' }, { end: 'replaced, because no worker can replay it' }])(
    'a message sent with isNew while Postgres is away reaches the session that exists, although its execution was $end',
    { timeout: 180_000 },
    async ({ end }) => {
      const own = await deploy({ schema: schema.name })
      onTestFinished(() => own.stop())
      const first = await own.startWorker({ agents: [player.agent] })
      const played = player.play(own.pawl, { model: () => 'hello' })
      const { session, id, requests } = played
      await (await session.send('one')).result(TIMEOUT)
      await session.close()
      await own.workflowEnded(id)
      await first.stop()
      const postgres = await startSlowProxy(inject('stack').databaseUrl)
      const second = await own.startWorker({ agents: [player.agent], postgres: postgres.url })
      await postgres.close()
      await session.send('two', { isNew: true })
      await until('the model was asked', () => requests.length === 2)
      await session.pause({ by: 'ann' })
      await second.stop()
      const isTerminated = end === 'terminated'
      if (isTerminated) await own.temporal.workflow.getHandle(`pawl:${id}`).terminate('by an operator')
      await own.startWorker({ agents: [player.agent], ...(!isTerminated && { interceptors: OTHER_BUILD, healAfter: '1s' }) })
      const three = await session.send('three')
      await until('it is paused', async () => (await session.state()).paused?.by === 'ann', 60_000)
      await session.unpause()
      await three.result({ timeout: 60_000 })
      expect(saidIn(requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['one', 'two', 'three'])
    },
  )

  it('a message that is sent with isNew to a session that exists begins a session, if there is none', async () => {
    const { session, count } = play()
    expect(await (await session.send('one', { isNew: true })).result(TIMEOUT)).toMatchObject({ text: 'one', run: 1 })
    expect(count('pay')).toBe(1)
    expect(ofType(await eventsOf(session), 'session_started')).toHaveLength(1)
  })
})
