// Sessions whose workflow's history no worker can replay, because another build with other workflow code wrote it.
import { fileURLToPath } from 'node:url'
import type { Agent } from 'pawl'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Unopened } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { inOrder, type Played, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }
/** Waits before the session begins, which is in no history of the other build. */
const OTHER_BUILD = { workflowModules: [fileURLToPath(new URL('../support/own/added-timer.js', import.meta.url))] }

let here: Deployment
let player: Stage
let worker: RunningWorker | undefined

beforeAll(async () => {
  here = await deploy()
  player = stage()
})
afterEach(() => worker?.stop())
afterAll(() => here?.stop())

const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)
const hasFailedTask = async (id: string): Promise<boolean> =>
  ((await workflowOf(id).fetchHistory()).events ?? []).some((event) => event.workflowTaskFailedEventAttributes)

describe.each([
  { deploy: 'forward', before: {}, after: { interceptors: OTHER_BUILD } },
  { deploy: 'back', before: { interceptors: OTHER_BUILD }, after: {} },
])('a session whose history no worker can replay after a deploy $deploy', ({ before, after }) => {
  it('answers every message once after its workflow was terminated', { timeout: 180_000 }, async () => {
    worker = await here.startWorker({ agents: [player.agent as Agent], ...before })
    const played: Played = player.play(here.pawl, { model: () => 'hello' })
    await (await played.session.send('one')).result(TIMEOUT)
    await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
    await worker.stop()

    worker = await here.startWorker({ agents: [player.agent as Agent], ...after })
    const two = await played.session.send('two')
    await until('its workflow task fails', () => hasFailedTask(played.id))
    await workflowOf(played.id).terminate('by an operator')
    const three = await played.session.send('three')
    await Promise.all([two.result(TIMEOUT), three.result(TIMEOUT)])
    // The message that started the new execution comes first: the others are sent to it.
    expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked')).sort()).toEqual(['one', 'three', 'two'])
  })
})

it('a session whose unreadable history has effects that are not stored waits for a person', { timeout: 180_000 }, async () => {
  const store = await startSlowProxy(inject('stack').databaseUrl)
  worker = await here.startWorker({ agents: [player.agent as Agent], postgres: store.url })
  const played = player.play(here.pawl, { model: inOrder('hello', [use('pay', 'rent')], 'paid') })
  await (await played.session.send('one')).result(TIMEOUT)
  await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await store.close()
  await played.session.send('two')
  await until('the model has the result', () => played.requests.length === 3)
  await worker.stop()

  worker = await here.startWorker({ agents: [player.agent as Agent], interceptors: OTHER_BUILD })
  await played.session.send('three')
  await until('its workflow task fails', () => hasFailedTask(played.id))
  await workflowOf(played.id).terminate('by an operator')
  await played.session.send('four')
  const errorOf = async () => (await workflowOf(played.id).query<Unopened>('state')).error
  await until('it says so', async () => (await errorOf())?.code === 'execution_unreadable', 60_000)
  expect((await errorOf())?.reason).toContain('with tool calls that are not stored')
  expect(played.count('pay')).toBe(1)
})
