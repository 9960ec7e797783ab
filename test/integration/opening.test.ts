// Sessions whose past cannot be loaded for a while: each waits in a state that says why, opens by itself or when a person decides, and then
// answers every message that was sent meanwhile.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { UnopenedState } from '../../src/session/protocol/protocol.ts'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Played, saidIn, type Stage, stage } from '../support/scenes.ts'
import { type SlowProxy, startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 90_000 }
/** The workflow learns after ten seconds what it is waiting for. */
const REPORTED_WITHIN_MS = 60_000

let here: Deployment
let player: Stage
let worker: RunningWorker
let store: SlowProxy
let port: number

beforeAll(async () => {
  const { databaseUrl } = inject('stack')
  store = await startSlowProxy(databaseUrl)
  port = Number(new URL(store.url).port)
  here = await deploy({ stack: { ...inject('stack'), databaseUrl: store.url } })
  player = stage()
  worker = await here.startWorker({ agents: [player.agent as Agent] })
})
afterAll(async () => {
  await here?.stop()
  await store?.close()
})

const stopStore = (): Promise<void> => store.close()
/** Requests to the store get no answer. */
const stallStore = (): void => {
  store.delayMs = 600_000
}
async function restartStore(): Promise<void> {
  await store.close()
  store = await startSlowProxy(inject('stack').databaseUrl, port)
}

const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)
const errorOf = async (id: string) => (await workflowOf(id).query<UnopenedState>('state')).error
const terminate = (id: string) => workflowOf(id).terminate('by an operator')

/** A session that has answered once. Its events are stored, unless the store is unavailable. */
async function answered(): Promise<Played> {
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one', { isNew: true })).result(TIMEOUT)
  return played
}

async function stored({ id, session }: Played): Promise<void> {
  await until('all is stored', async () => (await here.pawl.sessions.get(id)).flushedSeq >= (await session.state()).seq)
}

/** Sends the text, and waits until the session says why it cannot be opened. */
async function sendUnanswered({ id, session }: Pick<Played, 'id' | 'session'>, text: string, code: string): Promise<void> {
  await session.send(text, { messageId: text })
  await until(`it says ${code}`, async () => (await errorOf(id))?.code === code, REPORTED_WITHIN_MS)
}

const said = ({ requests }: Played): string[] => saidIn(requests.at(-1) ?? expect.fail('no model was asked'))

describe('a session that has to open while the store is unavailable', () => {
  it('a session that cannot open without the store reports that, refuses requests, and later opens with every message', {
    timeout: 240_000,
  }, async () => {
    const played = await answered()
    const { session, id } = played
    await stored(played)
    await terminate(id)
    await stopStore()
    await sendUnanswered(played, 'two', 'archive_unavailable')
    expect(await errorOf(id)).toMatchObject({ strategy: 'automatic', reason: expect.stringContaining('side store') })
    expect(await codeOf(session.resume())).toBe('archive_unavailable')
    expect(await codeOf(session.recover({ strategy: 'abandon' }))).toBe('recovers_by_itself')
    await expect(session.state()).rejects.toMatchObject({
      code: 'session_unavailable',
      message: expect.stringContaining('Postgres, which holds its past'),
    })
    await session.send('three', { messageId: 'three' })
    await restartStore()
    await session.run('three').result(TIMEOUT)
    expect(said(played)).toEqual(['one', 'two', 'three'])
  })

  it('a session that cannot open without the store keeps its messages even if it is terminated first', { timeout: 240_000 }, async () => {
    const played = await answered()
    const { session, id } = played
    await stored(played)
    await terminate(id)
    await stopStore()
    await sendUnanswered(played, 'two', 'archive_unavailable')
    await terminate(id)
    await workflowOf(id).describe()
    await restartStore()
    await session.send('three', { messageId: 'three' })
    await session.run('two').result(TIMEOUT)
    await session.run('three').result(TIMEOUT)
    expect(said(played).sort()).toEqual(['one', 'three', 'two'])
    expect(ofType(await eventsOf(session), 'message_received').filter(({ messageId }) => messageId === 'two')).toHaveLength(1)
  })

  it('a session whose loading fails permanently waits in an error, and opens when a person tells it to try again', {
    timeout: 240_000,
  }, async () => {
    const played = await answered()
    const { session, id } = played
    await stored(played)
    await terminate(id)
    stallStore()
    await sendUnanswered(played, 'two', 'archive_unavailable')
    await failPendingActivity(id)
    await until('it says so', async () => (await errorOf(id))?.code === 'session_not_loaded')
    await restartStore()
    await session.recover({ strategy: 'restart_run' })
    await session.run('two').result(TIMEOUT)
    expect(said(played)).toEqual(['one', 'two'])
  })

  it('a fork that cannot open without the store reports that, and begins when the store is back', { timeout: 240_000 }, async () => {
    const played = await answered()
    await stored(played)
    const { toSeq: seq, digest } = await workflowOf(played.id).executeUpdate<{ toSeq: number; digest: string }, [object]>('fork', {
      args: [{}],
    })
    const id = `fork-${randomUUID()}`
    stallStore()
    await here.temporal.workflow.start('pawlSession', {
      workflowId: `pawl:${id}`,
      taskQueue: here.taskQueue,
      args: [{ sessionId: id, fork: { from: played.id, seq, digest, keys: 'carried' } }],
    })
    await until('it says so', async () => (await errorOf(id))?.code === 'archive_unavailable', REPORTED_WITHIN_MS)
    await failPendingActivity(id)
    await until('it says so', async () => (await errorOf(id))?.code === 'session_not_loaded')
    const fork = player.play(here.pawl, { model: () => 'hello' }, { id })
    await fork.session.send('two', { messageId: 'two' })
    await restartStore()
    // No one tells the fork to try again: it does so by itself after a while.
    await fork.session.run('two').result(TIMEOUT)
    expect(said(fork)).toEqual(['one', 'two'])
  })
})

/** Does what an operator can do with `temporal activity fail`. */
async function failPendingActivity(id: string): Promise<void> {
  await until('it asks again, and is failed', async () => {
    const { raw } = await workflowOf(id).describe()
    const activityId = raw.pendingActivities?.[0]?.activityId ?? ''
    const failure = { message: 'by an operator', applicationFailureInfo: { nonRetryable: true } }
    const { namespace } = inject('stack')
    return here.temporal.workflowService.respondActivityTaskFailedById({ namespace, workflowId: `pawl:${id}`, activityId, failure })
  })
}

describe('a session that was terminated before its events were stored', () => {
  /** Terminated while the store was unavailable. After that, its task queue has no worker left that could say what it held. */
  async function unreadable(): Promise<Played & { elsewhere: SessionHandle }> {
    await stopStore()
    const played = await answered()
    await terminate(played.id)
    await worker.stop()
    await restartStore()
    const taskQueue = `${here.taskQueue}-other`
    await here.startWorker({ agents: [player.agent as Agent], taskQueue })
    const elsewhere = here.pawl.session(played.id, { agent: player.agent.name, taskQueue }) as SessionHandle
    await sendUnanswered({ id: played.id, session: elsewhere }, 'two', 'execution_unreadable')
    return { ...played, elsewhere }
  }

  it('a session that was terminated before its events were stored waits for them, and loads them once they can be read', {
    timeout: 240_000,
  }, async () => {
    const played = await unreadable()
    expect(await codeOf(played.elsewhere.recover({ strategy: 'restart_run' }))).toBe('recovers_by_itself')
    await sleep(3_000)
    expect((await errorOf(played.id))?.code).toBe('execution_unreadable')
    worker = await here.startWorker({ agents: [player.agent as Agent] })
    await played.elsewhere.run('two').result(TIMEOUT)
    expect(said(played)).toEqual(['one', 'two'])
  })

  it('a session that was terminated before its events were stored opens without them when a person abandons them', {
    timeout: 240_000,
  }, async () => {
    const played = await unreadable()
    await played.elsewhere.recover({ strategy: 'abandon', by: 'me' })
    await played.elsewhere.run('two').result(TIMEOUT)
    expect(said(played)).toEqual(['two'])
    worker = await here.startWorker({ agents: [player.agent as Agent] })
  })
})
