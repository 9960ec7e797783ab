// Sessions whose workflow's history no worker can replay, because another build with other workflow code wrote it, or none has begun it.
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { type Agent, defineAgent, type ModelRequest } from 'pawl'
import { scripted } from 'pawl/testing'
import type { CreateWorkerOptions } from 'pawl/worker'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest'
import { queryEvents } from '../../src/connect/session-queries.ts'
import { entriesOf } from '../../src/session/protocol/pages.ts'
import { openStore } from '../../src/store/index.ts'
import { approvalStage, digestOf, once, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { loseTask } from '../support/lost-task.ts'
import { recorder } from '../support/recorder.ts'
import { inOrder, type Played, resultsIn, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { buildsOf, OTHER_BUILD } from '../support/other-build.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }
/** Starts a timer, which is in no history of the other build. */
const BROKEN_BUILD = { workflowModules: [fileURLToPath(new URL('../support/own/always-throws.js', import.meta.url))] }
const SOON = { healAfter: '1s' } as const

let here: Deployment
let player: Stage
const builds = buildsOf(() => here)

beforeAll(async () => {
  here = await deploy()
  player = stage()
})
afterAll(() => here?.stop())

const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)
const hasFailedTask = async (id: string): Promise<boolean> =>
  ((await workflowOf(id).fetchHistory()).events ?? []).some((event) => event.workflowTaskFailedEventAttributes)

const inPostgres = async (sql: string): Promise<Record<string, unknown>[]> => {
  const client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}
const recoveriesOf = (id: string) => inPostgres(`select kind, note, details from pawl.recoveries where session_id = '${id}'`)
const completedCallsOf = (id: string) =>
  inPostgres(`select tool, result from pawl.tool_calls where session_id = '${id}' and status = 'completed'`)

describe.each([
  { deploy: 'forward', before: {}, after: { interceptors: OTHER_BUILD } },
  { deploy: 'back', before: { interceptors: OTHER_BUILD }, after: {} },
])('after a deploy $deploy, a session whose history no worker can replay', ({ before, after }) => {
  /** A session that an old worker served, and that fails on the new one since message `two`. */
  async function broken(options: Partial<CreateWorkerOptions>) {
    await builds.start({ agents: [player.agent as Agent], ...before })
    const played: Played = player.play(here.pawl, { model: () => 'hello' }, { priority: { priorityKey: 2 } })
    await (await played.session.send('one')).result(TIMEOUT)
    await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
    const { runId: executionId } = await workflowOf(played.id).describe()
    await builds.stop()
    await builds.start({ agents: [player.agent as Agent], ...after, ...options })
    const two = await played.session.send('two')
    await until('its workflow task fails', () => hasFailedTask(played.id))
    return { played, executionId, two }
  }

  const heard = ({ requests }: Played): string[] => saidIn(requests.at(-1) ?? expect.fail('no model was asked'))

  it('a session that no worker can replay answers every message once after its workflow was terminated', { timeout: 180_000 }, async () => {
    const { played, two } = await broken({ healAfter: false })
    await workflowOf(played.id).terminate('by an operator')
    const three = await played.session.send('three')
    await Promise.all([two.result(TIMEOUT), three.result(TIMEOUT)])
    expect(heard(played)).toEqual(['one', 'two', 'three'])
  })

  it('a session that no worker can replay continues after it was terminated, if everything had been stored', {
    timeout: 120_000,
  }, async () => {
    await builds.start({ agents: [player.agent as Agent], ...before })
    const played: Played = player.play(here.pawl, { model: () => 'hello' })
    await (await played.session.send('one')).result(TIMEOUT)
    await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
    await builds.stop()
    await workflowOf(played.id).terminate('by an operator')
    await builds.start({ agents: [player.agent as Agent], ...after, healAfter: false })
    await (await played.session.send('two')).result(TIMEOUT)
    expect(heard(played)).toEqual(['one', 'two'])
  })

  it('a session that no worker can replay closes if an operator cancelled its workflow, and loses no message', {
    timeout: 120_000,
  }, async () => {
    const { played, two } = await broken({ healAfter: '5s' })
    await workflowOf(played.id).cancel()
    const ended = async () => (await workflowOf(played.id).describe()).status.name
    await until('it has closed', async () => (await ended()) === 'COMPLETED', 60_000)
    expect((await played.session.state()).status).toBe('closed')
    const three = await played.session.send('three')
    await Promise.all([two.result(TIMEOUT), three.result(TIMEOUT)])
    expect(heard(played)).toEqual(['one', 'two', 'three'])
  })

  describe('whose worker died with the first task that fails', () => {
    async function lost(options: Partial<CreateWorkerOptions>) {
      await builds.start({ agents: [player.agent as Agent], ...before })
      const played: Played = player.play(here.pawl, { model: () => 'hello' })
      await (await played.session.send('one')).result(TIMEOUT)
      await builds.stop()
      const two = await played.session.send('two')
      await loseTask(here, played)
      await builds.start({ agents: [player.agent as Agent], ...after, ...options })
      return { played, two }
    }

    it('a session whose worker died with the first task that fails continues by itself', { timeout: 120_000 }, async () => {
      const { played, two } = await lost(SOON)
      await two.result(TIMEOUT)
      expect(heard(played)).toEqual(['one', 'two'])
    })

    it('a session whose worker died with the first task that fails continues after it was terminated', { timeout: 120_000 }, async () => {
      const { played, two } = await lost({ healAfter: false })
      await until('another attempt fails', async () => ((await workflowOf(played.id).describe()).raw.pendingWorkflowTask?.attempt ?? 0) > 2)
      await workflowOf(played.id).terminate('by an operator')
      const three = await played.session.send('three')
      await Promise.all([two.result(TIMEOUT), three.result(TIMEOUT)])
      expect(heard(played)).toEqual(['one', 'two', 'three'])
    })
  })

  it('a session that no worker can replay continues by itself, and says in one row what happened', { timeout: 180_000 }, async () => {
    const log = recorder()
    const { played, executionId, two } = await broken({ ...SOON, logger: log })
    const three = await played.session.send('three')
    await Promise.all([two.result(TIMEOUT), three.result(TIMEOUT)])
    expect(heard(played)).toEqual(['one', 'two', 'three'])
    const next = await workflowOf(played.id).describe()
    expect([next.priority?.priorityKey, await next.staticSummary()]).toEqual([2, player.agent.name])
    expect(log.about('its session continues in another one')).toMatchObject([['error', expect.anything()]])
    await until('it is stored', async () => (await recoveriesOf(played.id)).length > 0)
    expect(await recoveriesOf(played.id)).toMatchObject([
      { kind: 'session_resumed', details: { unreplayable: executionId }, note: expect.stringContaining('TMPRL1100') },
    ])
  })
})

it.each([{ handle: 'an id' }, { handle: 'no id' }])(
  'a session that was terminated before any worker had it answers every message, if its handle was made with $handle',
  { timeout: 120_000 },
  async ({ handle }) => {
    const requests: ModelRequest[] = []
    const model = scripted((request) => {
      requests.push(request)
      return 'hello'
    })
    const agent = defineAgent({ name: 'greeter', instructions: 'Greet.', model })
    const session = here.pawl.session(handle === 'an id' ? randomUUID() : undefined, { agent: 'greeter' })
    const one = await session.send('one')
    await workflowOf(session.id).terminate('by an operator')
    const two = await session.send('two')
    await builds.start({ agents: [agent as Agent] })
    await Promise.all([one.result(TIMEOUT), two.result(TIMEOUT)])
    expect(saidIn(requests.at(-1) ?? expect.fail('no model was asked')).sort()).toEqual(['one', 'two'])
  },
)

it('a call that ran while the deploy broke its session is not repeated, and its result counts', { timeout: 180_000 }, async () => {
  const old = await here.startWorker({ agents: [player.agent as Agent] })
  const body = gate()
  const pay = async () => {
    await body.pass()
    return 'receipt 7'
  }
  const played = player.play(here.pawl, { model: inOrder([use('pay', 'rent'), use('put', 'note')], 'paid'), pay })
  const sent = await played.session.send('one')
  await body.reached
  const stopped = old.stop()
  await builds.start({ agents: [player.agent as Agent], interceptors: OTHER_BUILD, ...SOON })
  body.open()
  await stopped
  await sent.result(TIMEOUT)
  expect(played.count('pay')).toBe(1)
  expect(played.count('verify')).toBe(0)
  expect(JSON.stringify(resultsIn(played.requests.at(-1) ?? expect.fail('no model was asked')))).toContain('receipt 7')
  expect(played.requests).toHaveLength(2)
})

it.each([{ session: 'running' }, { session: 'paused' }])(
  'interrupting a call that no worker can replay keeps its result while the session is $session',
  { timeout: 180_000 },
  async ({ session }) => {
    const old = await here.startWorker({ agents: [player.agent as Agent] })
    const body = gate()
    const pay = async () => {
      await body.pass()
      return 'receipt 8'
    }
    const played = player.play(here.pawl, { model: inOrder([use('pay', 'rent')], 'paid'), pay })
    const sent = await played.session.send('one')
    await body.reached
    // With a call that is not stored, the session would wait for a person instead.
    await until('the call is stored', async () => (await here.pawl.toolCalls({ session: played.id })).items.length > 0)
    if (session === 'paused') await played.session.pause()
    const stopped = old.stop()
    await builds.start({ agents: [player.agent as Agent], interceptors: OTHER_BUILD, ...SOON })
    body.open()
    await stopped
    await played.session.interrupt({ reason: 'enough' })
    expect(
      await sent.result(TIMEOUT).then(
        () => 'completed',
        (error: { code?: string }) => error.code,
      ),
    ).toBe('run_interrupted')
    expect(played.count('pay')).toBe(1)
    await until('it is stored', async () => (await completedCallsOf(played.id)).length > 0)
    expect(await completedCallsOf(played.id)).toEqual([{ tool: 'pay', result: 'receipt 8' }])
  },
)

it('an idle session that no worker can replay continues by itself if a part of its events is not stored', {
  timeout: 180_000,
}, async () => {
  const away = await builds.startOld(player.agent)
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one')).result(TIMEOUT)
  await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await away.close()
  await (await played.session.send('two')).result(TIMEOUT)
  await builds.startNew(player.agent)
  const saidTo = async () => inPostgres(`select message_id from pawl.messages where session_id = '${played.id}' and role = 'assistant'`)
  await until('its second answer is stored', async () => (await saidTo()).length === 2, 120_000)
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['one', 'two'])
})

/** A paused session whose payment ends while a deploy breaks it: the next execution inherits the receipt. */
async function inheritedReceipt(there: Deployment) {
  const old = await there.startWorker({ agents: [player.agent as Agent] })
  const body = gate()
  const pay = async () => {
    await body.pass()
    return 'receipt 9'
  }
  const played = player.play(there.pawl, { model: inOrder([use('pay', 'rent')], 'paid'), pay })
  const sent = await played.session.send('one')
  await body.reached
  // With a call that is not stored, the session would wait for a person instead.
  await until('the call is stored', async () => (await there.pawl.toolCalls({ session: played.id })).items.length > 0)
  await played.session.pause()
  const stopped = old.stop()
  const next = await there.startWorker({ agents: [player.agent as Agent], interceptors: OTHER_BUILD, ...SOON })
  body.open()
  await stopped
  return { played, sent, next }
}

it('what a paused session inherited outlives its continue-as-new: the call is not made again', { timeout: 180_000 }, async () => {
  const events = 100
  const there = await deploy({ history: { events } })
  onTestFinished(() => there.stop())
  const { played, sent } = await inheritedReceipt(there)
  const runId = async () => (await there.temporal.workflow.getHandle(`pawl:${played.id}`).describe()).runId
  const broken = await runId()
  await until('it has continued in another execution', async () => (await runId()) !== broken)
  await until('it is open', async () => (await played.session.state()).status !== undefined)
  const healed = await runId()
  // Each is an event, however many of them a workflow task takes.
  for (let n = 0; n < events; n++) await played.session.send(`more ${n}`)
  await until('it has continued as new', async () => (await runId()) !== healed)
  await played.session.unpause()
  await sent.result(TIMEOUT)
  expect(played.count('pay')).toBe(1)
  expect(JSON.stringify(played.requests)).toContain('receipt 9')
})

it('what a paused session inherited outlives its termination: the result counts', { timeout: 180_000 }, async () => {
  const { played, sent, next } = await inheritedReceipt(here)
  onTestFinished(() => next.stop())
  await until('it is stored', async () => (await recoveriesOf(played.id)).length > 0, 60_000)
  await workflowOf(played.id).terminate('by an operator')
  await played.session.unpause()
  await sent.result(TIMEOUT)
  expect(played.count('pay')).toBe(1)
  expect(JSON.stringify(played.requests)).toContain('receipt 9')
})

it.each([
  { history: 'no worker can replay', begun: true },
  { history: 'no worker could begin', begun: false },
])('erased content does not come back from a history that $history', { timeout: 180_000 }, async ({ begun }) => {
  const played = player.play(here.pawl, { model: () => 'hello' })
  if (begun) {
    await builds.start({ agents: [player.agent as Agent] })
    await (await played.session.send('one')).result(TIMEOUT)
    await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
    await builds.stop()
  }
  const broken = begun ? OTHER_BUILD : BROKEN_BUILD
  await builds.start({ agents: [player.agent as Agent], interceptors: broken, healAfter: false })
  await played.session.send('secret')
  await until('its workflow task fails', () => hasFailedTask(played.id))
  await here.pawl
    .erase(played.id, { by: 'anna', force: true })
    .catch((error: { code?: string }) => expect(error.code).toBe('session_not_found'))
  await builds.stop()
  await builds.start({ agents: [player.agent as Agent] })
  await (await played.session.send('after')).result(TIMEOUT)
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['after'])
})

it('a decision that is made while no worker can replay the session is carried out once', { timeout: 180_000 }, async () => {
  const asking = approvalStage()
  await builds.start({ agents: [asking.agent] })
  const played = asking.play(here.pawl, { model: once(['pay', 'rent']) })
  const sent = await played.session.send('one')
  const callId = 't_1_1_0'
  const digest = await digestOf(sent, callId)
  await builds.startNew(asking.agent)
  await played.session.approve(callId, { digest, by: 'anna' })
  await sent.result(TIMEOUT)
  expect(played.entered()).toEqual(['pay rent'])
})

it('any number of unstored decisions in a history that no worker can replay are carried out once', { timeout: 180_000 }, async () => {
  const asking = approvalStage()
  const away = await builds.startOld(asking.agent)
  const bills = Array.from({ length: 17 }, (_, n) => `bill ${n}`)
  const played = asking.play(here.pawl, { model: once(...bills.map((bill): ['pay', string] => ['pay', bill]), ['peek', 'last']) })
  const sent = await played.session.send('one')
  const pending = await pendingOf(sent)
  await until(
    'the requests are stored',
    async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'waiting',
  )
  await away.close()
  const isBill = ({ callId }: { callId: string }) => callId !== pending.at(-1)?.callId
  for (const { callId, digest = '' } of pending.filter(isBill)) await played.session.approve(callId, { digest, by: 'anna' })
  await builds.startNew(asking.agent)
  const { callId, digest = '' } = pending.at(-1) ?? expect.fail('nothing is pending')
  await played.session.approve(callId, { digest, by: 'anna' })
  await sent.result(TIMEOUT)
  expect(played.entered().toSorted()).toEqual([...bills.map((bill) => `pay ${bill}`), 'peek last'].toSorted())
})

it('messages before and after a rollback keep that order in a session that no worker can replay', { timeout: 180_000 }, async () => {
  const away = await builds.startOld(player.agent)
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one')).result(TIMEOUT)
  const { version: checkpoint } = await played.session.checkpoint('before two')
  await until('it is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await away.close()
  await (await played.session.send('two')).result(TIMEOUT)
  await played.session.rollback({ checkpoint })
  await (await played.session.send('three')).result(TIMEOUT)
  await builds.startNew(player.agent)
  await (await played.session.send('four')).result(TIMEOUT)
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['one', 'three', 'four'])
})

it('several workers that cannot replay an execution replace it only once', { timeout: 180_000 }, async () => {
  await builds.start({ agents: [player.agent as Agent] })
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one')).result(TIMEOUT)
  await builds.stop()

  const build = { agents: [player.agent as Agent], interceptors: OTHER_BUILD, ...SOON }
  const others = await Promise.all([here.startWorker(build), here.startWorker(build), here.startWorker(build)])
  await (await played.session.send('two')).result(TIMEOUT)
  await Promise.all(others.map((other) => other.stop()))
  expect(await recoveriesOf(played.id)).toHaveLength(1)
})

it('calls that are not stored are read from a history that no worker can replay', { timeout: 180_000 }, async () => {
  const store = await builds.startOld(player.agent)
  const played = player.play(here.pawl, {
    model: inOrder('hello', [use('pay', 'rent'), use('put', 'note')], [use('pay', 'power')], 'paid', 'again'),
  })
  await (await played.session.send('one')).result(TIMEOUT)
  await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await store.close()
  await played.session.send('two')
  await until('the model has the results', () => played.requests.length === 4)
  await builds.startNew(player.agent)
  await (await played.session.send('three')).result(TIMEOUT)
  expect(played.entries.map(({ tool, input }) => `${tool} ${input.what}`)).toEqual(['pay rent', 'put note', 'pay power'])
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked')).sort()).toEqual(['one', 'three', 'two'])
})

it('what a session inherits does not grow with each execution that cannot use it', { timeout: 180_000 }, async () => {
  const store = await builds.startOld(player.agent)
  const played = player.play(here.pawl, { model: inOrder('hello', [use('pay', 'rent')], 'paid') })
  await (await played.session.send('one')).result(TIMEOUT)
  await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await store.close()
  await (await played.session.send('two')).result(TIMEOUT)
  await builds.stop()

  /** What the newest execution has loaded, once it has. */
  const loaded = () =>
    until(
      'it has loaded',
      async () => {
        const events = (await workflowOf(played.id).fetchHistory()).events ?? []
        const scheduled = events.find(({ activityTaskScheduledEventAttributes: at }) => at?.activityType?.name === 'loadSession')
        const done = events.find(
          ({ activityTaskCompletedEventAttributes: at }) => at && String(at.scheduledEventId) === String(scheduled?.eventId),
        )
        return done?.activityTaskCompletedEventAttributes?.result?.payloads?.[0]?.data?.length
      },
      60_000,
    )
  const sizes: number[] = []
  const broken = { workflowModules: [fileURLToPath(new URL('../support/own/fails-once-loaded.js', import.meta.url))] }
  await builds.start({ agents: [player.agent as Agent], interceptors: broken, healAfter: false })
  for (const text of ['three', 'four', 'five', 'six']) {
    await played.session.send(text)
    if (text !== 'three') sizes.push(await loaded())
    await until('its workflow task fails', () => hasFailedTask(played.id))
    await workflowOf(played.id).terminate('by an operator')
  }
  await builds.stop()

  await builds.start({ agents: [player.agent as Agent] })
  await (await played.session.send('seven')).result(TIMEOUT)
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual([
    'one',
    'two',
    'three',
    'four',
    'five',
    'six',
    'seven',
  ])
  expect(played.count('pay')).toBe(1)
  expect(Math.max(...sizes) / Math.min(...sizes)).toBeLessThan(1.5)
})

it('a session of which nothing was stored also continues by itself, and a row says what happened', { timeout: 180_000 }, async () => {
  const store = await builds.startOld(player.agent)
  await store.close()
  const played = player.play(here.pawl, { model: () => 'hello' })
  const one = await played.session.send('one', { isNew: true })
  await until('the model was asked', () => played.requests.length > 0)
  const { runId: executionId } = await workflowOf(played.id).describe()
  await builds.startNew(player.agent)
  await (await played.session.send('two')).result(TIMEOUT)
  await one.result(TIMEOUT)
  await until('it is stored', async () => (await recoveriesOf(played.id)).length > 0)
  expect(await recoveriesOf(played.id)).toMatchObject([
    { kind: 'session_started', details: { unreplayable: executionId }, note: expect.stringContaining('TMPRL1100') },
  ])
})

it('a rollback that a part of a flush has stored is not carried out again', { timeout: 180_000 }, async () => {
  const away = await builds.startOld(player.agent)
  await away.close()
  const played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one', { isNew: true })).result(TIMEOUT)
  const { version: checkpoint } = await played.session.checkpoint('before two')
  await (await played.session.send('two')).result(TIMEOUT)
  await played.session.rollback({ checkpoint })
  await (await played.session.send('three')).result(TIMEOUT)
  const { runId: executionId } = await workflowOf(played.id).describe()
  const page = (await queryEvents(here.temporal, { sessionId: played.id, executionId }, { after: 0 }, 5_000)) ?? expect.fail('no events')
  await builds.stop()
  // A flush of thousands of events is cut off within the third run.
  const store = openStore({ postgres: inject('stack').databaseUrl })
  onTestFinished(() => store.close())
  const last = page.events.findLastIndex(({ type }) => type === 'turn_started')
  await store.flush(played.id, page.epoch, entriesOf(page).slice(0, last), { executionId })

  await builds.start({ agents: [player.agent as Agent], interceptors: OTHER_BUILD, ...SOON })
  await (await played.session.send('four')).result(TIMEOUT)
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked')).sort()).toEqual(['four', 'one', 'three'])
  await until('it is stored', async () => (await recoveriesOf(played.id)).some(({ kind }) => kind === 'session_resumed'))
  expect((await recoveriesOf(played.id)).filter(({ kind }) => kind === 'rolled_back')).toHaveLength(1)
})

it('a session that would lose calls waits for a person, and its status says for what', { timeout: 180_000 }, async () => {
  const store = await builds.startOld(player.agent)
  const played = player.play(here.pawl, { model: inOrder('hello', 'hello again', [use('pay', 'rent')], 'paid', 'done') })
  await (await played.session.send('one')).result(TIMEOUT)
  await until('its answer is stored', async () => (await here.pawl.sessions.list({ idPrefix: played.id })).items[0]?.status === 'idle')
  await store.close()
  // A message that arrives later could join the first of these two runs: the calls of the second one would be requested anew.
  await (await played.session.send('two')).result(TIMEOUT)
  await (await played.session.send('three')).result(TIMEOUT)
  await builds.startNew(player.agent)
  await played.session.send('four')
  const status = await until(
    'it says so',
    async () => {
      const report = await played.session.status()
      return report.status === 'error' && report
    },
    60_000,
  )
  expect(status.error).toMatchObject({
    code: 'execution_unreadable',
    reason: expect.stringContaining('with tool calls that are not stored'),
  })
  expect(status.waitsFor).toMatchObject([{ for: 'person', to: 'recover' }, { for: 'worker' }])
  expect(played.count('pay')).toBe(1)
  await played.session.recover({ strategy: 'abandon' })
  await (await played.session.send('five')).result(TIMEOUT)
  expect(played.count('pay')).toBe(1)
})

it('a build with which no execution can begin replaces only one execution', { timeout: 180_000 }, async () => {
  // Executions of other tests may still have a task, and one of them could be the one that is replaced.
  const own = await deploy()
  onTestFinished(() => own.stop())
  const old = await own.startWorker({ agents: [player.agent as Agent] })
  const all = [1, 2, 3].map(() => player.play(own.pawl, { model: () => 'hello' }))
  for (const { session } of all) await (await session.send('one')).result(TIMEOUT)
  await old.stop()
  const executionsOf = () => Promise.all(all.map(async ({ id }) => (await workflowOf(id).describe()).runId))
  const before = await executionsOf()

  const log = recorder()
  const broken = await own.startWorker({ agents: [player.agent as Agent], interceptors: BROKEN_BUILD, ...SOON, logger: log })
  const sent = await Promise.all(all.map(({ session }) => session.send('two')))
  await until('it says that the build is broken', () => log.about('this build fails new executions, too').length > 0, 60_000)
  await broken.stop()
  const after = await executionsOf()
  expect(after.filter((id, at) => id !== before[at])).toHaveLength(1)

  await own.startWorker({ agents: [player.agent as Agent], ...SOON })
  await Promise.all(sent.map((message) => message.result(TIMEOUT)))
})
