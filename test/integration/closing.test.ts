// What arrives while a session closes, and requests that a closed session refuses: its status is what the session is.
import { ModelError } from 'pawl'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest'
import { queryEvents } from '../../src/connect/session-queries.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { type Played, saidIn, type Stage, stage } from '../support/scenes.ts'
import { type SlowProxy, startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 30_000 }

let here: Deployment
let player: Stage
let worker: RunningWorker | undefined

beforeAll(async () => {
  here = await deploy()
  player = stage({ retry: { maxRetries: 0, baseDelay: 10 }, recovery: { automatic: [] } })
})
afterEach(() => worker?.stop())
afterAll(() => here?.stop())

const workflowOf = ({ id }: Played) => here.temporal.workflow.getHandle(`pawl:${id}`)
const storedStatus = async ({ id }: Played) => (await here.pawl.sessions.list({ idPrefix: id })).items[0]?.status
const typesOf = async ({ session }: Played): Promise<string[]> => (await eventsOf(session)).map(({ type }) => type)

describe('while a session closes', () => {
  /** A session that has closed itself, which Postgres does not know yet. */
  async function closing(): Promise<{ played: Played; postgres: SlowProxy }> {
    const postgres = await startSlowProxy(inject('stack').databaseUrl)
    onTestFinished(() => postgres.close())
    worker = await here.startWorker({ agents: [player.agent], postgres: postgres.url })
    const played = player.play(here.pawl, { model: () => 'hello' })
    await (await played.session.send('one')).result(TIMEOUT)
    await until('it is stored', async () => (await storedStatus(played)) === 'idle')
    postgres.delayMs = 2_000
    await played.session.close({ by: 'anna' })
    await until('it closes', async () => (await played.session.state()).status === 'closed')
    return { played, postgres }
  }

  it.each([
    { type: 'message_rejected', send: (played: Played) => workflowOf(played).signal('message', { content: '' }) },
    { type: 'checkpoint_made', send: (played: Played) => played.session.checkpoint('at the end') },
  ])('a session that closes while $type arrives is closed after it, and its row says so', async ({ type, send }) => {
    const { played, postgres } = await closing()
    const sent = send(played)
    await until('it has arrived', async () => (await typesOf(played)).at(-1) === type)
    expect((await played.session.state()).status).toBe('idle')
    postgres.delayMs = 0
    await sent
    await here.workflowEnded(played.id)
    expect((await typesOf(played)).slice(-3)).toEqual(['session_closed', type, 'session_closed'])
    expect(await storedStatus(played)).toBe('closed')
    await rowsMatchEvents(here.stack, played.id)
  })

  it('a session that is paused while it closes stays open, as does its row', async () => {
    const { played, postgres } = await closing()
    await played.session.pause({ by: 'ben' })
    postgres.delayMs = 0
    await until('the pause is stored', async () => (await storedStatus(played)) === 'idle')
    expect((await workflowOf(played).describe()).status.name).toBe('RUNNING')
    await rowsMatchEvents(here.stack, played.id)
  })
})

describe('a closed session', () => {
  async function closed(model: () => string = () => 'hello'): Promise<Played> {
    worker = await here.startWorker({ agents: [player.agent] })
    const played = player.play(here.pawl, { model })
    await (await played.session.send('one')).settled(TIMEOUT)
    await played.session.close()
    await here.workflowEnded(played.id)
    return played
  }

  it('a request that a closed session refuses changes nothing', { timeout: 60_000 }, async () => {
    const played = await closed()
    const { session } = played
    const before = await eventsOf(session)
    const refused: [string, () => Promise<unknown>][] = [
      ['approve', () => session.approve('t_9_9_0', { digest: 'd', by: 'anna' })],
      ['resolve', () => session.resolve('t_9_9_0', { happened: false }, { by: 'anna' })],
      ['rollback', () => session.rollback({ run: 9 })],
      ['recover', () => session.recover({ strategy: 'continue_run' })],
      ['fork', () => session.fork({ run: 9 })],
    ]
    for (const [name, request] of refused) {
      await expect(request(), name).rejects.toMatchObject({ code: expect.any(String) })
      await here.workflowEnded(played.id)
      expect(await session.state(), name).toMatchObject({ status: 'closed', seq: before.at(-1)?.seq })
      expect(await eventsOf(session), name).toEqual(before)
    }
    expect(await storedStatus(played)).toBe('closed')
    await (await session.send('two')).result(TIMEOUT)
    expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['one', 'two'])
    await rowsMatchEvents(here.stack, played.id)
  })

  it('no client sees an unstored event of a closed session, even while the session considers a request', async () => {
    const played = await closed()
    const before = await typesOf(played)
    const postgres = await startSlowProxy(inject('stack').databaseUrl)
    onTestFinished(() => postgres.close())
    await worker?.stop()
    worker = await here.startWorker({ agents: [player.agent], postgres: postgres.url })
    postgres.delayMs = 1_000
    const refused = played.session.rollback({ run: 9 }).then(
      () => 'carried out',
      (error: { code?: string }) => error.code,
    )
    await until('it looks for the place', async () => {
      const { events } = await workflowOf(played).fetchHistory()
      return events?.some(({ activityTaskScheduledEventAttributes: at }) => at?.activityType?.name === 'findPlace')
    })
    const page = await queryEvents(here.temporal, { sessionId: played.id }, { after: 0, lasting: true }, 10_000)
    expect(page?.events.map(({ type }) => type).filter((type) => type === 'session_resumed')).toEqual([])
    expect((await played.session.state()).status).toBe('closed')
    expect((await workflowOf(played).describe()).status.name).toBe('RUNNING')
    postgres.delayMs = 0
    expect(await refused).toBe('run_not_found')
    await here.workflowEnded(played.id)
    expect(await typesOf(played)).toEqual(before)
  })

  it('a recovery that a closed session refuses is recorded, and the session closes again', async () => {
    const played = await closed(() => {
      throw new ModelError('bad', 'no', { retryable: false })
    })
    await expect(played.session.recover({ strategy: 'restart_from_last_effect', by: 'anna' })).rejects.toMatchObject({
      code: expect.any(String),
    })
    await here.workflowEnded(played.id)
    expect((await typesOf(played)).slice(-3)).toEqual(['session_resumed', 'recovery_refused', 'session_closed'])
    expect(await storedStatus(played)).toBe('closed')
    await rowsMatchEvents(here.stack, played.id)
  })

  it('a message that a closed session rejects is recorded, and the session closes again', async () => {
    const played = await closed()
    const sent = await played.session.send('two', { messageId: 'two' })
    await sent.result(TIMEOUT)
    await played.session.close()
    await here.workflowEnded(played.id)
    const other = here.pawl.session(played.id, { agent: 'another' })
    await expect((await other.send('three')).result(TIMEOUT)).rejects.toMatchObject({ code: 'agent_mismatch' })
    await here.workflowEnded(played.id)
    expect((await typesOf(played)).slice(-3)).toEqual(['session_resumed', 'message_rejected', 'session_closed'])
    expect(await storedStatus(played)).toBe('closed')
    await rowsMatchEvents(here.stack, played.id)
    // It knows the message already.
    const before = await eventsOf(played.session)
    expect((await (await played.session.send('two', { messageId: 'two' })).result(TIMEOUT)).text).toBe('hello')
    await here.workflowEnded(played.id)
    expect(await eventsOf(played.session)).toEqual(before)
  })

  it('a request that a closed session carries out opens it', async () => {
    const played = await closed()
    await played.session.checkpoint('later')
    expect((await played.session.state()).status).toBe('idle')
    expect((await workflowOf(played).describe()).status.name).toBe('RUNNING')
  })
})
