// `temporal workflow reset`: the session resumes from what was stored, and what was done is neither repeated nor forgotten.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineTool } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { answersIn, inOrder, type Played, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { size } from '../support/sizes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 40_000 }
/** Events of history at which sessions continue as new, and enough turns to exceed them. */
const DUE = size(200, 1_000)
const TURNS = DUE / 5

let here: Deployment
let player: Stage
let long: Stage
let store: Store

beforeAll(async () => {
  here = await deploy({ history: { events: DUE } })
  player = stage()
  long = stage({ name: 'long', limits: { maxTurns: 1_000 } })
  store = openStore({ postgres: here.stack.databaseUrl })
  await here.startWorker({ agents: [player.agent, long.agent] })
})
afterAll(async () => {
  await store?.close()
  await here?.stop()
})

/** Resets the session's workflow to just before the first (or the last) activity of that name was scheduled. */
async function resetBefore(activity: string, session: SessionHandle, which: 'first' | 'last' = 'first', runId?: string): Promise<void> {
  const handle = here.temporal.workflow.getHandle(`pawl:${session.id}`, runId)
  const { events } = await handle.fetchHistory()
  const scheduled = (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === activity)
  const found = which === 'first' ? scheduled[0] : scheduled.at(-1)
  const finished = found?.activityTaskScheduledEventAttributes?.workflowTaskCompletedEventId
  await here.temporal.workflowService.resetWorkflowExecution({
    namespace: here.stack.namespace,
    workflowExecution: { workflowId: `pawl:${session.id}`, runId: (await handle.describe()).runId },
    reason: 'a test',
    workflowTaskFinishEventId: finished ?? expect.fail(`no ${activity} in the history`),
    requestId: randomUUID(),
  })
}

/** Expects that the store has everything that the workflow has, in one unbroken sequence, and that nothing was set aside. */
async function expectOneStory(session: SessionHandle): Promise<void> {
  const { seq } = await session.state()
  await until('all is stored', async () => ((await store.head(session.id))?.seq ?? 0) >= seq)
  const events = await eventsOf(session)
  expect(events.map((event) => event.seq)).toEqual(Array.from({ length: events.length }, (_, index) => index + 1))
  expect(await store.head(session.id)).toMatchObject({ seq, epoch: (await foldedState(session)).epoch })
}

describe('a session whose workflow is reset', () => {
  it('a session reset to a point before a completed call does not repeat the call, and the conversation continues', async () => {
    const { session, requests, count } = player.play(here.pawl, { model: inOrder([use('pay', 'it')], 'paid', 'gladly') })
    expect(await (await session.send('pay')).result(TIMEOUT)).toMatchObject({ text: 'paid' })
    await resetBefore('executeTool', session)
    expect(await (await session.send('thanks')).result(TIMEOUT)).toMatchObject({ run: 2, text: 'gladly' })
    expect(count('pay')).toBe(1)
    expect(saidIn(requests.at(-1)!)).toEqual(['pay', 'thanks'])
    expect(answersIn(requests.at(-1)!)).toBe(2)
    expect(ofType(await eventsOf(session), 'session_resumed')).toMatchObject([{ resetOf: expect.stringMatching(/^[0-9a-f-]{36}$/) }])
    await expectOneStory(session)
  })

  it('a session reset during an external body does not enter it again, and calls verify once its time is up', async () => {
    const entered = gate()
    let entries = 0
    const wire = defineTool({
      name: 'wire',
      description: 'Wires money.',
      input: z.object({ what: z.string() }),
      effect: 'external',
      timeout: '1s',
      execute: () => {
        entries += 1
        entered.open()
        return new Promise(() => undefined)
      },
      verify: () => ({ happened: true, result: 'it has arrived' }),
    })
    const model = scripted((request) => (answersIn(request) === 0 ? [use('wire', 'it')] : 'wired'))
    const queue = `${here.taskQueue}-wire`
    await here.startWorker({ agents: [defineAgent({ name: 'wirer', instructions: '', model, tools: [wire] }) as Agent], taskQueue: queue })
    const session = here.pawl.session(`wired-${queue}`, { agent: 'wirer', taskQueue: queue }) as SessionHandle
    const run = await session.send('wire it')
    await entered.pass()
    await resetBefore('executeTool', session)
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1, text: 'wired' })
    expect(entries).toBe(1)
    expect(ofType(await eventsOf(session), 'tool_resolved')).toMatchObject([{ by: 'verify', happened: true }])
    await expectOneStory(session)
  })

  it('a session whose workflow is reset in the middle of a run completes that run without repeating its effects', async () => {
    const held = gate()
    const { session, count } = player.play(here.pawl, {
      model: inOrder([use('pay', 'it')], [use('look', 'around')], 'all done'),
      look: (_input, ctx) => (ctx.turn === 2 ? held.pass(ctx.signal) : 'seen'),
    })
    const run = await session.send('pay')
    await held.reached
    await resetBefore('callModel', session)
    held.open()
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1, text: expect.stringMatching(/all done|nothing more/) })
    expect(count('pay')).toBe(1)
    await expectOneStory(session)
  })

  it('a session whose workflow is reset to a point before messages were sent keeps each of them once', async () => {
    const { session, requests } = player.play(here.pawl, {})
    for (const said of ['one', 'two', 'three']) await (await session.send(said)).result(TIMEOUT)
    await resetBefore('callModel', session)
    await (await session.send('four')).result(TIMEOUT)
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three', 'four'])
    expect(ofType(await eventsOf(session), 'message_received')).toHaveLength(4)
    await expectOneStory(session)
  })

  it('a session reset to a point before requests were carried out does not carry them out again', async () => {
    const held = gate()
    const { session, requests } = player.play(here.pawl, {
      model: async (request, ctx) => {
        if (saidIn(request).at(-1) === 'slow' && !ctx.signal.aborted) await held.pass(ctx.signal)
        return `heard ${saidIn(request).at(-1)}`
      },
    })
    await (await session.send('one')).result(TIMEOUT)
    const { version: checkpoint } = await session.checkpoint('after one')
    await (await session.send('two')).result(TIMEOUT)
    await session.rollback({ checkpoint })
    const slow = await session.send('slow')
    await held.reached
    await session.interrupt({ reason: 'too slow' })
    await slow.settled(TIMEOUT)
    await (await session.send('three')).result(TIMEOUT)
    await session.regenerate()
    await until('it is regenerated', async () => (await session.state()).status === 'idle')
    const before = await eventsOf(session)

    await resetBefore('callModel', session)
    expect(await (await session.send('four')).result(TIMEOUT)).toMatchObject({ text: 'heard four' })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'slow', 'three', 'four'])
    const after = (await eventsOf(session)).slice(before.length)
    expect(after.map(({ type }) => type).filter((type) => /rolled|interrupted|received|checkpoint/.test(type))).toEqual([
      'message_received',
      'checkpoint_made',
    ])
    await expectOneStory(session)
  })

  it('a request that arrives after a reset is carried out, although it equals one that was carried out before', async () => {
    const { session, requests } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    const { version: checkpoint } = await session.checkpoint('after one')
    await (await session.send('two')).result(TIMEOUT)
    await session.rollback({ checkpoint })
    await (await session.send('three')).result(TIMEOUT)
    await resetBefore('callModel', session)
    await session.rollback({ checkpoint })
    await (await session.send('four')).result(TIMEOUT)
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'four'])
    await expectOneStory(session)
  })

  const rolledBackPast = async (more: { messageId?: string; twice?: boolean } = {}): Promise<Played> => {
    const played = player.play(here.pawl, {
      model: (request) => (saidIn(request).at(-1) === 'two' && request.turn === 1 ? [use('pay', 'rent')] : 'hello'),
    })
    const { session } = played
    const { twice, ...options } = more
    await (await session.send('one')).result(TIMEOUT)
    const { version: checkpoint } = await session.checkpoint('after one')
    for (let sent = 0; sent < (twice ? 2 : 1); sent++) await (await session.send('two', options)).result(TIMEOUT)
    await session.rollback({ checkpoint })
    return played
  }

  it.each([
    { to: 'its first task', activity: 'loadSession', sent: {} },
    { to: 'a later task, and its message had been sent twice', activity: 'callModel', sent: { messageId: 'm', twice: true } },
  ])(
    'a rolled-back message does not come back, and its payment is not repeated, if the session is reset to $to',
    async ({ activity, sent }) => {
      const id = sent.messageId && `m-${randomUUID()}`
      const { session, requests, count } = await rolledBackPast({ ...sent, ...(id && { messageId: id }) })
      await (await session.send('three')).result(TIMEOUT)
      await resetBefore(activity, session)
      await (await session.send('four')).result(TIMEOUT)
      expect(saidIn(requests.at(-1)!)).toEqual(['one', 'three', 'four'])
      expect(count('pay')).toBe(1)
      await expectOneStory(session)
    },
  )

  it('a request that was refused, or changed nothing, is not carried out by a reset', async () => {
    const { session, requests } = await rolledBackPast()
    await expect(session.regenerate()).rejects.toThrow()
    await session.pause({ by: 'ann' })
    await session.pause({ by: 'bob' })
    await session.unpause({ by: 'ann' })
    await (await session.send('three')).result(TIMEOUT)
    const asked = requests.length
    await resetBefore('callModel', session)
    await (await session.send('four')).result(TIMEOUT)
    expect(requests).toHaveLength(asked + 1)
    expect(ofType(await eventsOf(session), 'rolled_back')).toHaveLength(1)
  })

  it('an unpause that changed nothing does not end a later pause after a reset', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    await session.unpause({ by: 'ann' })
    await session.pause({ by: 'bob' })
    await resetBefore('callModel', session)
    await session.send('two')
    await until('it is reopened', async () => ofType(await eventsOf(session), 'message_received').length === 2)
    expect(await session.state()).toMatchObject({ paused: { by: 'bob' } })
  })

  describe('without a worker', () => {
    let own: Deployment
    let first: Awaited<ReturnType<Deployment['startWorker']>>

    beforeEach(async () => {
      own = await deploy()
      first = await own.startWorker({ agents: [player.agent] })
    })
    afterEach(() => own?.stop())

    const workflowOf = ({ id }: Played) => own.temporal.workflow.getHandle(`pawl:${id}`)

    it('a message to a closed session whose earlier execution is reset is not lost', async () => {
      const played = player.play(own.pawl, {})
      const { session, requests } = played
      await (await session.send('one')).result(TIMEOUT)
      const { runId } = await workflowOf(played).describe()
      await session.close()
      await own.workflowEnded(played.id)
      await first.stop()
      await session.send('two')
      await resetBefore('callModel', session, 'first', runId)
      await own.startWorker({ agents: [player.agent] })
      await (await session.send('three')).result(TIMEOUT)
      expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three'])
    })

    it.each(['callModel', 'loadSession'])(
      'an execution that was reset to a point before %s, and terminated before a worker picked it up, loses and repeats nothing',
      async (activity) => {
        const played = player.play(own.pawl, {})
        const { session, requests } = played
        await (await session.send('one')).result(TIMEOUT)
        const { version: checkpoint } = await session.checkpoint('after one')
        await (await session.send('two')).result(TIMEOUT)
        await session.rollback({ checkpoint })
        await (await session.send('three')).result(TIMEOUT)
        const { seq } = await session.state()
        await until('all is stored', async () => ((await store.head(session.id))?.seq ?? 0) >= seq)
        await first.stop()
        await resetBefore(activity, session)
        await session.send('four')
        await workflowOf(played).terminate('by an operator')
        await own.startWorker({ agents: [player.agent] })
        await (await session.send('five')).result(TIMEOUT)
        expect(saidIn(requests.at(-1)!)).toEqual(['one', 'three', 'four', 'five'])
      },
    )
  })

  it('a session whose workflow is reset twice, and then loaded by another worker, has one consistent history', async () => {
    const own = await deploy()
    try {
      const { session, requests, count } = player.play(own.pawl, { model: inOrder([use('pay', 'it')], 'paid', 'two', 'three', 'four') })
      const first = await own.startWorker({ agents: [player.agent] })
      await (await session.send('pay')).result(TIMEOUT)
      const before = (await own.temporal.workflow.getHandle(`pawl:${session.id}`).describe()).runId
      await resetBefore('executeTool', session)
      await (await session.send('two')).result(TIMEOUT)
      // Resets the execution that the first reset made, and then the original one.
      await resetBefore('callModel', session, 'last')
      await (await session.send('three')).result(TIMEOUT)
      await resetBefore('callModel', session, 'first', before)
      await first.stop()
      await own.startWorker({ agents: [player.agent] })
      expect(await (await session.send('four')).result(TIMEOUT)).toMatchObject({ run: 4 })
      await own.startWorker({ agents: [player.agent] })
      expect(saidIn(requests.at(-1)!)).toEqual(['pay', 'two', 'three', 'four'])
      expect(count('pay')).toBe(1)
      await expectOneStory(session)
    } finally {
      await own.stop()
    }
  })

  it('a second reset, to where the session had resumed from the first, keeps a message that waits for a worker', async () => {
    const own = await deploy()
    try {
      const { session, requests, count } = player.play(own.pawl, { model: inOrder([use('pay', 'it')], 'paid', 'two', 'three') })
      const first = await own.startWorker({ agents: [player.agent] })
      await (await session.send('pay')).result(TIMEOUT)
      await resetBefore('executeTool', session)
      await (await session.send('two')).result(TIMEOUT)
      await resetBefore('callModel', session, 'last')
      await first.stop()
      const third = await session.send('three')
      await own.startWorker({ agents: [player.agent] })
      expect(await third.result(TIMEOUT)).toMatchObject({ run: 3 })
      expect(saidIn(requests.at(-1)!)).toEqual(['pay', 'two', 'three'])
      expect(count('pay')).toBe(1)
      await expectOneStory(session)
    } finally {
      await own.stop()
    }
  })

  it('a session reset in a continued execution, or in the one before it, resumes at its newest event', async () => {
    const { session, requests, count } = long.play(here.pawl, {
      model: (request) =>
        saidIn(request).length > 1 ? 'later' : answersIn(request) < TURNS ? [use('put', `${answersIn(request)}`)] : 'done',
    })
    await (await session.send('one')).result({ timeout: 90_000 })
    const newest = await here.temporal.workflow.getHandle(`pawl:${session.id}`).fetchHistory()
    const earlier = newest.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined
    await resetBefore('callModel', session)
    await (await session.send('two')).result(TIMEOUT)
    await resetBefore('callModel', session, 'last', earlier ?? expect.fail('it has not continued as new'))
    await (await session.send('three')).result(TIMEOUT)
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three'])
    expect(count('put')).toBe(TURNS)
    await expectOneStory(session)
  })

  it('a session whose workflow is reset before any of it was stored loses none of its history', async () => {
    const own = await deploy()
    try {
      const { session, requests } = player.play(own.pawl, {})
      const storeless = await own.startWorker({ agents: [player.agent], postgres: 'postgres://nobody@127.0.0.1:1/nothing' })
      await (await session.send('one', { isNew: true })).result(TIMEOUT)
      await (await session.send('two')).result(TIMEOUT)
      await resetBefore('callModel', session)
      await storeless.stop()
      await own.startWorker({ agents: [player.agent] })
      await (await session.send('three')).result(TIMEOUT)
      expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two', 'three'])
      await expectOneStory(session)
    } finally {
      await own.stop()
    }
  })
})
