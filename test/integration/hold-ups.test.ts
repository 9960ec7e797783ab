// Every call that meets a waiting session says what the session waits for, within a bound, even with no worker or no Postgres.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pawl, type SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { SessionEvent } from '../../src/session/events.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { stage } from '../support/scenes.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const AWAY = 'postgres://pawl:secret@127.0.0.1:1/x'
const POSTGRES_UNAVAILABLE = expect.stringMatching(
  /waits for Postgres, which holds its past \(Postgres at 127\.0\.0\.1:1\/x is unavailable: .*\)\./,
)

/** Resolves once a worker has picked up the session and has tried Postgres. */
const untilPostgresTried = (session: SessionHandle) =>
  until('the session says that it waits for Postgres', async () => {
    const why = await session.state().catch((error: Error) => error)
    return why instanceof Error && why.message.includes('(Postgres at ')
  })

describe('a session with the caller’s own id, whose worker cannot reach Postgres', () => {
  const player = stage()
  let here: Deployment
  const waits: string[] = []
  const unavailable = (message: unknown) => ({ name: 'SessionUnavailableError', code: 'session_unavailable', message })

  beforeAll(async () => {
    here = await deploy({ stack: { ...inject('stack'), databaseUrl: AWAY } })
    await here.startWorker({ agents: [player.agent] })
  })
  afterAll(() => here?.stop())

  it('a session whose worker cannot reach Postgres reports that, and how to work without it', async () => {
    const { session } = player.play(here.pawl, {})
    const run = await session.send('hello', { isNew: false })
    await untilPostgresTried(session)
    for (const asked of [() => session.state(), () => session.messages(), async () => session.events()[Symbol.asyncIterator]().next()]) {
      await expect(asked()).rejects.toMatchObject(unavailable(POSTGRES_UNAVAILABLE))
    }
    await expect(session.state()).rejects.toThrow(/isNew: true/)
    await expect(run.result({ timeout: '4s' })).rejects.toThrow(/session\.status\(\) says what the session waits for/)
  })

  it('a person’s request does not wait forever for an unreachable Postgres, and reports what it waits for', async () => {
    const pawl = await here.connect({ onWait: (wait) => waits.push(wait.for) })
    const { session } = player.play(pawl, {})
    await session.send('hello', { isNew: false })
    await untilPostgresTried(session)
    const asked = [session.resolve('t_1_1_0', 'skip'), session.checkpoint('now'), session.resume()]
    for (const outcome of await Promise.allSettled(asked)) {
      const message = expect.stringMatching(/Postgres at 127\.0\.0\.1:1\/x is unavailable/)
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'RequestRefusedError', code: 'archive_unavailable', message } })
    }
    expect(waits.length).toBeGreaterThan(5)
    expect(new Set(waits)).toEqual(new Set([expect.stringMatching(/^session ".*", which waits for Postgres, which holds its past/)]))
    expect(waits.join()).not.toContain('secret')
  }, 60_000)

  it('a session whose worker cannot reach Postgres begins if its message says that the session is new', async () => {
    const { session } = player.play(here.pawl, { model: () => 'at once' })
    expect(await (await session.send('hello', { isNew: true })).result({ timeout: 20_000 })).toMatchObject({ text: 'at once' })
  })
})

describe('a session that no worker has picked up', () => {
  it('a session that no worker has picked up says which task queue it waits on', async () => {
    const here = await deploy()
    try {
      const session = here.pawl.session(randomUUID(), { agent: 'nobody' })
      const run = await session.send('hello')
      const { taskQueue } = here
      const waitsFor = `a worker on task queue "${taskQueue}"`
      await expect(session.state()).rejects.toMatchObject({ code: 'session_unavailable', waitsFor })
      await expect(session.messages()).rejects.toMatchObject({ code: 'session_unavailable', waitsFor })
      await expect(run.result({ timeout: '4s' })).rejects.toMatchObject({
        code: 'result_timeout',
        message: expect.stringContaining(
          `No event for the message has arrived yet. The session waits for ${waitsFor}. Start one that serves the agent "nobody" with \`pawl worker <module>\``,
        ),
      })
      await expect(session.state()).rejects.toThrow(/Start one that serves the agent "nobody" with `pawl worker/)
      await expect(session.approve('t_1_1_0', { digest: 'x' })).rejects.toMatchObject({ code: 'session_unavailable', waitsFor })
    } finally {
      await here.stop()
    }
  }, 60_000)
})

describe('a Postgres that hangs for a client', () => {
  it('a hanging Postgres keeps neither a result from its caller nor a client from closing', async () => {
    const here = await deploy()
    const proxy = await startSlowProxy(here.stack.databaseUrl)
    try {
      const player = stage()
      await here.startWorker({ agents: [player.agent] })
      const pawl = await here.connect({ postgres: proxy.url })
      proxy.delayMs = 600_000
      const { session } = player.play(pawl, { model: () => 'all the same' })
      const run = await session.send('hello')
      const begun = Date.now()
      expect(await run.result({ timeout: 20_000 })).toMatchObject({ text: 'all the same' })
      await pawl.close()
      expect(Date.now() - begun).toBeLessThan(15_000)
    } finally {
      await here.stop()
      await proxy.close()
    }
  })

  it('a hanging Postgres does not delay a timeout', async () => {
    const here = await deploy()
    const proxy = await startSlowProxy(here.stack.databaseUrl)
    try {
      const pawl = await here.connect({ postgres: proxy.url })
      proxy.delayMs = 600_000
      const run = await pawl.session(randomUUID(), { agent: 'nobody' }).send('hello')
      // A clock would also count the time for which a busy machine suspends this process.
      const late = sleep(3_000, 'late')
      await expect(Promise.race([run.settled({ timeout: 500 }), late])).rejects.toMatchObject({ code: 'result_timeout' })
    } finally {
      await here.stop()
      await proxy.close()
    }
  })
})

describe('stored events', () => {
  it('stored events are read without a worker; an unknown session has none, and an unreachable Postgres is reported', async () => {
    const here = await deploy()
    try {
      const player = stage()
      const worker = await here.startWorker({ agents: [player.agent] })
      const { session } = player.play(here.pawl, { model: () => 'hi' })
      await (await session.send('hello')).result({ timeout: 20_000 })
      const stored = async (of: SessionHandle): Promise<SessionEvent[]> => {
        const found: SessionEvent[] = []
        for await (const event of of.events({ stored: true })) found.push(event)
        return found
      }
      await until('all is stored', async () => (await stored(session)).some(({ type }) => type === 'run_completed'))
      const events = await eventsOf(session)
      await worker.stop()
      expect(await stored(session)).toEqual(events.slice(0, (await stored(session)).length))
      expect(await stored(here.pawl.session('nobody-knows-this-one'))).toEqual([])
      const away = await here.connect({ postgres: AWAY })
      await expect(stored(away.session(session.id))).rejects.toMatchObject({ code: 'session_unavailable' })
    } finally {
      await here.stop()
    }
  })
})

describe('an unknown session', () => {
  it('every request to an unknown session reports that it is not found', async () => {
    const here = await deploy()
    try {
      const player = stage()
      await here.startWorker({ agents: [player.agent] })
      // Another session creates the store's tables.
      await (await player.play(here.pawl, {}).session.send('hello')).result({ timeout: 20_000 })
      const session = here.pawl.session('nobody-knows-this-one')
      const notFound = { name: 'SessionNotFoundError', code: 'session_not_found' }
      await expect(session.messages()).rejects.toMatchObject(notFound)
      await expect(session.state()).rejects.toMatchObject(notFound)
      await expect(session.events()[Symbol.asyncIterator]().next()).rejects.toMatchObject(notFound)
      await expect(session.messagesUpTo({ run: 1 })).rejects.toMatchObject(notFound)
      await expect(session.interrupt()).rejects.toMatchObject(notFound)
    } finally {
      await here.stop()
    }
  })
})

describe('a Temporal that stops answering', () => {
  it('a Temporal that stops answering makes a send fail within a bound, and the message can be sent again', async () => {
    const { temporalAddress, namespace } = inject('stack')
    const proxy = await startSlowProxy(`http://${temporalAddress}`)
    const pawl = await Pawl.connect({ temporal: { address: new URL(proxy.url).host, namespace }, postgres: false })
    try {
      proxy.delayMs = 600_000
      const begun = Date.now()
      const session = pawl.session(randomUUID(), { agent: 'nobody' })
      await expect(session.send('hello', { messageId: 'once' })).rejects.toMatchObject({
        name: 'ConnectError',
        code: 'no_temporal',
        message: expect.stringContaining('with the same messageId is accepted only once'),
      })
      expect(Date.now() - begun).toBeLessThan(40_000)
    } finally {
      await pawl.close()
      await proxy.close()
    }
  }, 60_000)
})
