// What a session had accepted, and the store does not know of, when its execution ended and no worker could replay it: the next execution
// does it once, and where it belongs.
import { randomUUID } from 'node:crypto'
import { defineHook, ModelError } from 'pawl'
import type { RunHandle, SessionHandle } from 'pawl/client'
import type { ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, expect, inject, it, onTestFinished } from 'vitest'
import { approvalStage, digestOf, once, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, type Played, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { buildsOf, OTHER_BUILD } from '../support/other-build.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { gate, until } from '../support/until.ts'

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

const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)
const heardBy = ({ requests }: Pick<Played, 'requests'>): string[] => saidIn(requests.at(-1) ?? expect.fail('no model was asked'))
const isStored = async (id: string, status: string): Promise<boolean> =>
  (await here.pawl.sessions.list({ idPrefix: id })).items[0]?.status === status

/** A session with one answered message, after which Postgres went away. */
async function beforeTheOutage(model: Scene['model'] = () => 'hello'): Promise<Played> {
  const postgres = await builds.startOld(player.agent)
  const played = player.play(here.pawl, { model })
  await (await played.session.send('one')).result(TIMEOUT)
  await until('it is stored', () => isStored(played.id, 'idle'))
  await postgres.close()
  return played
}

const madeIn = async ({ session }: Played): Promise<string[]> =>
  ofType(await eventsOf(session), 'tool_completed').map(({ callId }) => callId)

/** What was passed on, and how that ended. */
const passedOnTo = async (session: SessionHandle) =>
  ofType(await eventsOf(session), 'request_passed_on').map(({ name, code }) => ({ name, code }))

it('a regeneration that no worker could replay answers the newest message again, and no earlier one', LIMIT, async () => {
  const played = await beforeTheOutage()
  const two = await played.session.send('two')
  await two.result(TIMEOUT)
  await played.session.regenerate()
  await builds.startNew(player.agent)
  await (await played.session.send('three')).result(TIMEOUT)
  expect(heardBy(played)).toEqual(['one', 'two', 'three'])
  const events = await eventsOf(played.session)
  expect(ofType(events, 'rolled_back').map(({ again }) => again?.messages.map(({ messageId }) => messageId))).toEqual([[two.messageId]])
  expect(await passedOnTo(played.session)).toEqual([{ name: 'regenerate', code: undefined }])
})

it.each(['approved', 'denied'] as const)(
  'a call that was not stored when its execution ended stays %s, and no person is asked again',
  LIMIT,
  async (how) => {
    const asking = approvalStage()
    const postgres = await builds.startOld(asking.agent)
    const played = asking.play(here.pawl, { model: once(['pay', 'rent']) })
    await postgres.close()
    const sent = await played.session.send('one', { isNew: true })
    const decision = { digest: await digestOf(sent, 't_1_1_0'), by: 'anna' }
    if (how === 'approved') await played.session.approve('t_1_1_0', decision)
    else await played.session.deny('t_1_1_0', { ...decision, reason: 'too much' })
    await until('the model goes on', () => played.requests.length === 2)
    await builds.startNew(asking.agent)
    // Nobody notices a history that no worker can replay before the session has something to do.
    await (await played.session.send('two')).result(TIMEOUT)
    expect(played.entered()).toEqual(how === 'approved' ? ['pay rent'] : [])
    const decided = ofType(await eventsOf(played.session), 'approval_decided').map(({ approved, by }) => ({ approved, by }))
    expect(decided).toEqual([{ approved: how === 'approved', by: 'anna' }])
  },
)

it('a client’s answer to a call that was not stored when its execution ended is not requested again', LIMIT, async () => {
  const asking = approvalStage()
  const postgres = await builds.startOld(asking.agent)
  const played = asking.play(here.pawl, { model: once(['ask', 'the colour']) })
  await postgres.close()
  const sent = await played.session.send('one', { isNew: true })
  const [pending] = await pendingOf(sent)
  await played.session.answer(pending?.callId ?? '', 'blue')
  await until('the model goes on', () => played.requests.length === 2)
  await builds.startNew(asking.agent)
  // Nobody notices a history that no worker can replay before the session has something to do.
  await (await played.session.send('two')).result(TIMEOUT)
  expect(JSON.stringify(played.requests.at(-1)?.messages)).toContain('blue')
})

it('a client whose rollback was accepted by an execution that has ended is told that it may still be carried out', LIMIT, async () => {
  await builds.start({ agents: [player.agent] })
  const body = gate()
  const played = player.play(here.pawl, { model: inOrder('hello', [use('wire', 'rent')]), wire: () => body.pass() })
  await (await played.session.send('one')).result(TIMEOUT)
  await played.session.send('two')
  await body.reached
  const refused = played.session.rollback({ run: 2 }).then(
    () => expect.fail('it was carried out'),
    (error: unknown) => error,
  )
  // It waits for the end of the run, which waits for the call.
  await until('the rollback is accepted', async () => {
    const { events } = await workflowOf(played.id).fetchHistory()
    return events?.some(({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => accepted)
  })
  await workflowOf(played.id).terminate()
  expect(await refused).toMatchObject({ code: 'session_unavailable', message: expect.stringContaining('It may still do so.') })
  body.open()
})

it('an interrupt after the last answer of an execution that cannot be replayed interrupts nothing', LIMIT, async () => {
  const played = await beforeTheOutage()
  await (await played.session.send('two')).result(TIMEOUT)
  await played.session.interrupt({ reason: 'too late' })
  await builds.startNew(player.agent)
  await (await played.session.send('three')).result(TIMEOUT)
  expect(heardBy(played)).toEqual(['one', 'two', 'three'])
  expect(ofType(await eventsOf(played.session), 'run_interrupted')).toEqual([])
})

it('a session whose paused execution cannot be replayed stays paused, and answers no later message', LIMIT, async () => {
  const played = await beforeTheOutage()
  await played.session.pause({ by: 'anna' })
  await builds.startNew(player.agent)
  const two = await played.session.send('two')
  await until('the next execution has it', async () => (await passedOnTo(played.session)).length > 0, 60_000)
  expect(await played.session.state()).toMatchObject({ paused: { by: 'anna' } })
  expect(played.requests).toHaveLength(1)
  await played.session.unpause()
  await two.result(TIMEOUT)
  expect(heardBy(played)).toEqual(['one', 'two'])
})

it('a request that was passed on to an execution that then ended is not carried out twice', LIMIT, async () => {
  const played = await beforeTheOutage()
  await played.session.pause({ by: 'anna' })
  await builds.startNew(player.agent)
  await played.session.unpause({ by: 'ben' })
  await (await played.session.send('two')).result(TIMEOUT)
  // It cannot replay the history of the newer one either.
  await builds.stop()
  await builds.start({ agents: [player.agent], healAfter: '1s' })
  await (await played.session.send('three')).result(TIMEOUT)
  expect((await played.session.state()).paused).toBeUndefined()
  expect(await passedOnTo(played.session)).toHaveLength(1)
})

it('a regeneration that is passed on answers the message before it again, and no later one', LIMIT, async () => {
  const played = await beforeTheOutage()
  const [{ messageId: one } = expect.fail('no message')] = ofType(await eventsOf(played.session), 'message_received')
  await played.session.regenerate()
  await (await played.session.send('two')).result(TIMEOUT)
  await builds.startNew(player.agent)
  await (await played.session.send('three')).result(TIMEOUT)
  expect(heardBy(played)).toEqual(['one', 'two', 'three'])
  const events = await eventsOf(played.session)
  expect(ofType(events, 'rolled_back').map(({ again }) => again?.messages.map(({ messageId }) => messageId))).toEqual([[one]])
})

it('requests after a pause that is passed on still apply to the run before the pause', LIMIT, async () => {
  const played = await beforeTheOutage()
  const two = await played.session.send('two')
  await two.result(TIMEOUT)
  await played.session.pause({ by: 'anna' })
  await played.session.regenerate()
  await builds.startNew(player.agent)
  const three = await played.session.send('three')
  await until('the next execution has it', async () => (await passedOnTo(played.session)).length === 2, 60_000)
  const events = await eventsOf(played.session)
  expect(ofType(events, 'rolled_back').map(({ again }) => again?.messages[0]?.messageId)).toEqual([two.messageId])
  expect(await played.session.state()).toMatchObject({ paused: { by: 'anna' } })
  await played.session.unpause()
  await three.result(TIMEOUT)
})

it('a session closes once the requests that were passed on are carried out, and then answers the next message', LIMIT, async () => {
  const played = await beforeTheOutage()
  await played.session.regenerate()
  await until('the model was asked again', () => played.requests.length === 2)
  await played.session.regenerate()
  await until('the model was asked once more', () => played.requests.length === 3)
  await builds.stop()
  await played.session.close()
  await builds.startNew(player.agent)
  await until('it has closed', async () => (await played.session.state()).status === 'closed', 60_000)
  await (await played.session.send('two')).result(TIMEOUT)
  expect(heardBy(played)).toEqual(['one', 'two'])
  expect(await passedOnTo(played.session)).toHaveLength(2)
})

it('if a message replaces a rolled-back one under the same id, the next execution answers the replacement', LIMIT, async () => {
  const played = await beforeTheOutage()
  const [{ messageId } = expect.fail('no message')] = ofType(await eventsOf(played.session), 'message_received')
  await played.session.rollback({ message: messageId })
  await (await played.session.send('one, edited', { messageId })).result(TIMEOUT)
  await builds.startNew(player.agent)
  await (await played.session.send('two')).result(TIMEOUT)
  expect(heardBy(played).toSorted()).toEqual(['one, edited', 'two'])
})

it('a recovery that is passed on is carried out before the messages that came after it', LIMIT, async () => {
  const failing = stage({ retry: { maxRetries: 0, baseDelay: 10 }, recovery: { automatic: [] } })
  const postgres = await builds.startOld(failing.agent)
  let isDown = true
  const model = () => {
    if (isDown) throw new ModelError('down', 'It is down.', { retryable: false })
    return 'hello'
  }
  const played = failing.play(here.pawl, { model })
  await (await played.session.send('one')).settled(TIMEOUT)
  await until('it is stored', () => isStored(played.id, 'error'))
  await postgres.close()
  isDown = false
  await played.session.recover({ strategy: 'restart_run', by: 'anna' })
  await until('the model has answered', async () => (await played.session.state()).status === 'idle')
  await (await played.session.send('two')).result(TIMEOUT)
  await builds.startNew(failing.agent)
  await (await played.session.send('three')).result(TIMEOUT)
  expect(await passedOnTo(played.session)).toEqual([{ name: 'recover', code: undefined }])
  expect(heardBy(played)).toEqual(['one', 'two', 'three'])
})

it('a reset of a history that no worker can replay keeps the order of requests before and after a rollback', LIMIT, async () => {
  const played = await beforeTheOutage()
  const { version: checkpoint } = await played.session.checkpoint('before two')
  await (await played.session.send('two')).result(TIMEOUT)
  await played.session.rollback({ checkpoint })
  await (await played.session.send('three')).result(TIMEOUT)
  await builds.startNew(player.agent, false)
  const { events } = await workflowOf(played.id).fetchHistory()
  const first = events?.find((event) => event.workflowTaskCompletedEventAttributes)
  await here.temporal.workflowService.resetWorkflowExecution({
    namespace: here.stack.namespace,
    workflowExecution: { workflowId: `pawl:${played.id}`, runId: (await workflowOf(played.id).describe()).runId },
    reason: 'a test',
    workflowTaskFinishEventId: first?.eventId ?? expect.fail('no workflow task was completed'),
    requestId: randomUUID(),
  })
  await (await played.session.send('four')).result(TIMEOUT)
  expect(heardBy(played)).toEqual(['one', 'three', 'four'])
})

it('an effect that followed an answer in which the model had paused does not happen again', LIMIT, async () => {
  const scripts: ScriptedAnswer[] = [
    'hello',
    { content: [{ type: 'text', text: 'one moment' }], stopReason: 'pause_turn' },
    [use('pay', 'rent')],
  ]
  const played = await beforeTheOutage(() => scripts.shift() ?? 'paid')
  await (await played.session.send('two')).result(TIMEOUT)
  await builds.startNew(player.agent)
  scripts.push([use('pay', 'rent')])
  await (await played.session.send('three')).result(TIMEOUT)
  expect(played.entries.map(({ tool, callId }) => `${tool} ${callId}`)).toEqual(['pay t_2_2_0'])
})

it(
  'an interrupt after an effect that was not stored ends the run in the next execution, and the effect stays recorded',
  LIMIT,
  async () => {
    const scripts: ScriptedAnswer[] = ['hello', [use('pay', 'rent')]]
    const played = await beforeTheOutage((request) => {
      const said = saidIn(request).at(-1)
      return said === 'three' ? 'three is answered' : (scripts.shift() ?? new Promise(() => undefined))
    })
    const two = await played.session.send('two')
    await until('the model has the receipt', () => played.requests.length === 3)
    await played.session.interrupt({ reason: 'enough' })
    await until('its run has ended', async () => (await played.session.state()).status === 'idle')
    await builds.startNew(player.agent)
    const three = await played.session.send('three')
    expect((await three.result(TIMEOUT)).text).toBe('three is answered')
    expect(await two.settled(TIMEOUT)).toMatchObject({ status: 'interrupted', reason: 'enough' })
    expect(await madeIn(played)).toEqual(['t_2_1_0'])
    expect(played.count('pay')).toBe(1)
  },
)

/** A session whose next execution is still loading it: an effect of its second message is not stored, and a third one has been sent. */
async function whileItLoads(): Promise<{ played: Played; three: RunHandle; loads(): void }> {
  const scripts: ScriptedAnswer[] = ['hello', [use('pay', 'rent')], 'paid']
  const played = await beforeTheOutage(() => scripts.shift() ?? 'hello')
  await (await played.session.send('two')).result(TIMEOUT)
  await builds.stop()
  scripts.push([use('pay', 'rent')])
  const postgres = await startSlowProxy(inject('stack').databaseUrl)
  onTestFinished(() => postgres.close())
  await builds.start({ agents: [player.agent], interceptors: OTHER_BUILD, healAfter: '1s', postgres: postgres.url })
  postgres.delayMs = 1_000
  const { runId: broken } = await workflowOf(played.id).describe()
  const three = await played.session.send('three')
  await until('the next execution begins', async () => (await workflowOf(played.id).describe()).runId !== broken, 60_000)
  return { played, three, loads: () => void (postgres.delayMs = 0) }
}

it('an interrupt that arrives while the next execution loads the session does not lose what its run had done', LIMIT, async () => {
  const { played, three, loads } = await whileItLoads()
  await played.session.interrupt({ reason: 'enough' })
  loads()
  await three.settled(TIMEOUT)
  expect((await madeIn(played))[0]).toBe('t_2_1_0')
  const interrupted = ofType(await eventsOf(played.session), 'run_interrupted')
  expect(interrupted.map(({ run, reason }) => [run, reason])).toEqual([[2, 'enough']])
})

it('a session that is cancelled while the next execution loads it does not lose what it had done', LIMIT, async () => {
  const { played, three, loads } = await whileItLoads()
  await workflowOf(played.id).cancel()
  loads()
  await until('it has closed', async () => (await workflowOf(played.id).describe()).status.name === 'COMPLETED', 60_000)
  expect(await madeIn(played)).toEqual(['t_2_1_0'])
  expect(played.count('pay')).toBe(1)
  await played.session.send('four')
  await three.settled(TIMEOUT)
})

it('a session that is cancelled while it carries out what was passed on closes, and delivers what was due meanwhile', LIMIT, async () => {
  let door = gate()
  const asking = approvalStage({
    hooks: [defineHook({ name: 'slow', on: 'preToolUse', timeout: '60s', run: () => door.pass().then(() => undefined) })],
  })
  const postgres = await builds.startOld(asking.agent)
  const played = asking.play(here.pawl, { model: once(['pay', 'rent']) })
  door.open()
  const one = await played.session.send('one')
  const digest = await digestOf(one, 't_1_1_0')
  await postgres.close()
  await played.session.approve('t_1_1_0', { digest, input: { what: 'food' } })
  await until('the model goes on', () => played.requests.length === 2)
  door = gate()
  await builds.startNew(asking.agent)
  const two = await played.session.send('two')
  // The next execution, which knows nothing of the approval, has the hooks judge the arguments again.
  await door.reached
  await played.session.send('later', { messageId: 'later', delay: 500 })
  const workflow = workflowOf(played.id)
  await until('the message is due', async () => {
    const { events } = await workflow.fetchHistory()
    const timer = events?.findLast(({ timerStartedEventAttributes: started }) => started)?.timerStartedEventAttributes?.timerId
    return events?.some(({ timerFiredEventAttributes: fired }) => fired?.timerId === timer)
  })
  await workflow.cancel()
  await until('it knows', async () => {
    const { events } = await workflow.fetchHistory()
    const asked = events?.findIndex(({ workflowExecutionCancelRequestedEventAttributes: cancelled }) => cancelled) ?? -1
    return (
      asked >= 0 && events?.slice(asked).some((one) => one.workflowTaskCompletedEventAttributes ?? one.workflowTaskFailedEventAttributes)
    )
  })
  door.open()
  await here.workflowEnded(played.id, 60_000)
  const events = await eventsOf(played.session)
  // No other execution had to replace this one.
  expect(ofType(events, 'session_resumed')).toHaveLength(1)
  expect(ofType(events, 'message_received').map(({ messageId }) => messageId)).toEqual([one.messageId, two.messageId, 'later'])
  expect(played.entered()).toEqual(['pay food'])
  expect(ofType(events, 'session_closed')).toHaveLength(1)
})

/** Waits until the session's newest execution has accepted an update. */
const requested = ({ id }: Played): Promise<boolean> =>
  until('the request has arrived', async () => {
    const { events } = await workflowOf(id).fetchHistory()
    return (events ?? []).some((event) => event.workflowExecutionUpdateAcceptedEventAttributes)
  })

it('a message that follows a rollback is answered after it, although both arrived while the session was loading', LIMIT, async () => {
  const postgres = await builds.startOld(player.agent)
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one')).result(TIMEOUT)
  await (await played.session.send('two')).result(TIMEOUT)
  await until('it is stored', () => isStored(played.id, 'idle'))
  await workflowOf(played.id).terminate('by an operator')
  postgres.delayMs = 1_000
  const rolledBack = played.session.rollback({ run: 2 })
  await requested(played)
  const three = await played.session.send('three')
  postgres.delayMs = 0
  await rolledBack
  expect((await three.result(TIMEOUT)).text).toBe('hello')
  expect(heardBy(played)).toEqual(['one', 'three'])
})
