// Scheduled messages when an execution ends without its own decision: no worker can replay it, or an operator resets it.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { buildsOf } from '../support/other-build.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { inOrder, type Played, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }
const LIMIT = { timeout: 180_000 }

let here: Deployment
let player: Stage
const builds = buildsOf(() => here)

beforeAll(async () => {
  here = await deploy()
  player = stage()
})
afterAll(() => here?.stop())

const heardBy = ({ requests }: Pick<Played, 'requests'>): string[] => saidIn(requests.at(-1) ?? expect.fail('no model was asked'))
const receivedBy = async ({ session }: Played): Promise<string[]> =>
  ofType(await eventsOf(session), 'message_received').map(({ messageId }) => messageId)

/** A session with one answered message, after which Postgres went away. */
async function beforeTheOutage(scene: Scene): Promise<Played> {
  const postgres = await builds.startOld(player.agent)
  const played = player.play(here.pawl, scene)
  await (await played.session.send('one')).result(TIMEOUT)
  await until('it is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await postgres.close()
  return played
}

it('a message whose scheduling was not stored is delivered by the execution that takes the session over', LIMIT, async () => {
  const played = await beforeTheOutage({ model: () => 'hello' })
  const run = await played.session.send('later', { delay: '12s' })
  await until('it is scheduled', async () => (await played.session.scheduled()).length === 1)
  await builds.startNew(player.agent)
  await (await played.session.send('two')).result(TIMEOUT)
  expect((await run.result(TIMEOUT)).text).toBe('hello')
  // By then, it may be due.
  expect(heardBy(played).toSorted()).toEqual(['later', 'one', 'two'])
  const events = await eventsOf(played.session)
  expect(ofType(events, 'message_scheduled')).toHaveLength(1)
  const [resumed] = ofType(events, 'session_resumed')
  const delivered = ofType(events, 'message_received').filter(({ messageId }) => messageId === run.messageId)
  expect(delivered.map(({ seq }) => seq > (resumed?.seq ?? Number.POSITIVE_INFINITY))).toEqual([true])
  await rowsMatchEvents(here.stack, played.id)
})

it(
  'a message that was delivered, and whose run made a call, is delivered again in its place, and the call is not repeated',
  LIMIT,
  async () => {
    const model = inOrder('hello', [use('put', 'later')], 'put', 'two', 'three')
    const played = await beforeTheOutage({ model })
    const later = await played.session.send('later', { messageId: 'm-later', delay: 700 })
    await later.result(TIMEOUT)
    await (await played.session.send('two', { messageId: 'm-two' })).result(TIMEOUT)
    await builds.startNew(player.agent)
    await (await played.session.send('three', { messageId: 'm-three' })).result(TIMEOUT)
    expect((await receivedBy(played)).slice(1)).toEqual(['m-later', 'm-two', 'm-three'])
    expect(heardBy(played)).toEqual(['one', 'later', 'two', 'three'])
    expect(played.count('put')).toBe(1)
  },
)

it('a message that was unscheduled is not delivered, although the store did not know of that', LIMIT, async () => {
  const played = await beforeTheOutage({ model: () => 'hello' })
  await played.session.send('never', { messageId: 'm-never', delay: '3s' })
  await until('it is scheduled', async () => (await played.session.scheduled()).length === 1)
  await played.session.unschedule('m-never')
  await sleep(3_000)
  await builds.startNew(player.agent)
  await (await played.session.send('two')).result(TIMEOUT)
  await sleep(1_000)
  expect(await receivedBy(played)).not.toContain('m-never')
})

it('a message that was delivered is not delivered again by a reset, and one that was not is', LIMIT, async () => {
  await builds.start({ agents: [player.agent] })
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one')).result(TIMEOUT)
  await (await played.session.send('soon', { messageId: 'm-soon', delay: 500 })).result(TIMEOUT)
  const later = await played.session.send('later', { messageId: 'm-later', delay: '5s' })
  await until('it is scheduled', async () => (await played.session.scheduled()).length === 1)
  const handle = here.temporal.workflow.getHandle(`pawl:${played.id}`)
  const { events } = await handle.fetchHistory()
  const first = events?.find((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'callModel')
  await here.temporal.workflowService.resetWorkflowExecution({
    namespace: here.stack.namespace,
    workflowExecution: { workflowId: `pawl:${played.id}`, runId: (await handle.describe()).runId },
    reason: 'a test',
    workflowTaskFinishEventId: first?.activityTaskScheduledEventAttributes?.workflowTaskCompletedEventId ?? expect.fail('no activity'),
    requestId: randomUUID(),
  })
  expect((await later.result(TIMEOUT)).text).toBe('hello')
  expect((await receivedBy(played)).slice(1)).toEqual(['m-soon', 'm-later'])
  await rowsMatchEvents(here.stack, played.id)
})

it('a rebuild makes the same rows of scheduled, delivered and unscheduled messages', LIMIT, async () => {
  await builds.start({ agents: [player.agent] })
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('now', { delay: 300 })).result(TIMEOUT)
  await played.session.send('later', { messageId: 'm-later', delay: '1h' })
  await played.session.send('never', { messageId: 'm-never', delay: '1h' })
  await until('both are scheduled', async () => (await played.session.scheduled()).length === 2)
  await played.session.unschedule('m-never')
  await rowsMatchEvents(here.stack, played.id)
  await here.pawl.rebuild({ session: played.id } as never)
  const { rows } = await rowsMatchEvents(here.stack, played.id)
  expect(rows.messages.filter(({ kind }) => kind === 'scheduled').map((row) => row.message_id)).toEqual(['m-later'])
  expect(rows.archived_messages.map((row) => row.message_id)).toEqual(['m-never'])
  await played.session.close({ unschedule: true })
})
