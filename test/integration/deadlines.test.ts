// Deadlines of messages and of sessions: they run through attempts, waits, recoveries and restarts, even with no worker running.
import { ModelError } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type ApprovalStage, approvalStage } from '../support/approvals.ts'
import { inOrder, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage
let aging: Stage
let asker: ApprovalStage
let hasty: Stage
let doubled: Stage
/** For each session, whether its second model hangs. */
const hanging = new Map<string, () => boolean>()

beforeAll(async () => {
  here = await deploy()
  player = stage({ retry: { maxRetries: 0 }, recovery: { automatic: ['continue_run', 'restart_run'], baseDelay: '1h', maxDelay: '1h' } })
  aging = stage({ name: 'aging', sessionLimits: { deadline: '3s' } })
  hasty = stage({ name: 'hasty', limits: { deadline: '6s' } })
  asker = approvalStage()
  const fallback = scripted(({ sessionId }) => (hanging.get(sessionId)?.() ? never() : 'the second answers'), { name: 'second' })
  doubled = stage({ name: 'doubled', retry: { maxRetries: 0 }, recovery: { automatic: [] }, fallback })
  await here.startWorker({ agents: [player.agent, aging.agent, asker.agent, doubled.agent] })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 30_000 }
const OF_MESSAGE = { status: 'failed', code: 'deadline_exceeded', reason: expect.stringContaining("before its message's deadline") }
const never = (): Promise<never> => new Promise(() => undefined)

/** Waits until a deadline of the session has passed. The server records that with or without a worker. */
function timerFired(id: string): Promise<boolean> {
  return until('a timer has fired', async () => {
    const { events } = await here.temporal.workflow.getHandle(`pawl:${id}`).fetchHistory()
    return events?.some(({ timerFiredEventAttributes }) => timerFiredEventAttributes) ?? false
  })
}

describe.concurrent('a message’s deadline', () => {
  it('a message’s deadline ends the run whose model hangs; a person can continue that run, without the deadline', async () => {
    let hangs = true
    const { session } = player.play(here.pawl, { model: () => (hangs ? never() : 'better late') })
    const run = await session.send('go', { deadline: '1.5s' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE, run: 1 })
    expect(ofType(await eventsOf(session), 'message_received')).toMatchObject([{ deadlineMs: 1_500 }])
    // A recovery from another failure would keep the deadline.
    hangs = false
    await session.recover({ by: 'ann' })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'better late' })
  })

  it('if a message’s deadline passes during a long earlier run, that run completes, and the message’s own fails without a model call', async () => {
    const door = gate()
    const { session, id, requests } = player.play(here.pawl, {
      model: inOrder([use('look', 'closely')], 'seen'),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const first = await session.send('go')
    await door.reached
    const timely = await session.send('and that', { deadline: '10m' })
    const late = await session.send('and this', { deadline: 300 })
    await until('both were received', async () => ofType(await eventsOf(session), 'message_received').length === 3)
    await timerFired(id)
    door.open()
    // The other message joins the run in time.
    expect(await timely.result(TIMEOUT)).toMatchObject({ run: 1, text: 'seen' })
    expect(await first.result(TIMEOUT)).toMatchObject({ run: 1, text: 'seen' })
    expect(await late.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE, run: 2 })
    expect(requests).toHaveLength(2)
    expect(saidIn(requests[1]!)).toEqual(['go', 'and that'])
    expect((await session.state()).queued).toBe(0)
  })

  it('a message’s deadline ends a run in progress that takes the message', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      model: (request) => (saidIn(request).length === 1 ? [use('look', 'closely')] : never()),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const first = await session.send('go', { deadline: '10m' })
    await door.reached
    const second = await session.send('be quick', { deadline: '6s' })
    await until('it was received', async () => ofType(await eventsOf(session), 'message_received').length === 2)
    door.open()
    expect(await first.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE, run: 1 })
    expect(await second.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE, run: 1 })
  })

  it('a message’s deadline ends a run that waits for an approval', async () => {
    const { session } = asker.play(here.pawl, { model: inOrder([use('pay', 'a')]) })
    const run = await session.send('go', { deadline: '6s' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'waiting' })
    await expect(run.result(TIMEOUT)).rejects.toMatchObject({ code: 'deadline_exceeded', run: 1 })
  })

  it('a message’s deadline ends a run that waits for its automatic recovery', async () => {
    const { session } = player.play(here.pawl, {
      model() {
        throw new ModelError('overloaded_error', 'the provider is overloaded', { retryable: true })
      },
    })
    const run = await session.send('go', { deadline: '6s' })
    await until('it waits', async () => (await session.state()).error?.nextAttemptAt !== undefined)
    await expect(run.result(TIMEOUT)).rejects.toMatchObject({ code: 'deadline_exceeded', run: 1, strategy: 'continue_run' })
    expect((await session.state()).error).not.toHaveProperty('nextAttemptAt')
  })

  it('a message’s deadline passes while the session is paused: unpausing ends the run without a model call', async () => {
    const door = gate()
    const { session, requests } = player.play(here.pawl, {
      model: inOrder([use('look', 'closely')], 'seen'),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const run = await session.send('go', { deadline: '6s' })
    await door.reached
    await session.pause()
    door.open()
    await until('the deadline has passed', async () => Date.now() > ((await session.state()).current?.deadlineAt ?? Infinity))
    expect(await session.state()).toMatchObject({ status: 'running', paused: {} })
    await session.unpause()
    expect(await run.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE, run: 1 })
    expect(requests).toHaveLength(1)
  })

  it('a message’s deadline still applies to a run that a person restarts after another failure', async () => {
    let fails = true
    const { session } = player.play(here.pawl, {
      model() {
        if (!fails) return never()
        throw new ModelError('invalid_api_key', 'the key is wrong', { retryable: false })
      },
    })
    await session.send('go', { deadline: '6s' })
    await until('the run has failed', async () => (await session.state()).error?.code === 'invalid_api_key')
    fails = false
    await session.recover({ strategy: 'restart_run', by: 'ann' })
    expect(await until('the next one has failed', async () => (await session.state()).error)).toMatchObject({
      code: 'deadline_exceeded',
      run: 2,
    })
  })

  it('a message’s deadline covers a fallback model, but not a regeneration or restart by a person', async () => {
    let hangs = true
    const { session, id, requests } = doubled.play(here.pawl, {
      model() {
        throw new ModelError('overloaded_error', 'the provider is overloaded', { retryable: true })
      },
    })
    hanging.set(id, () => hangs)
    for (const again of [
      () => session.regenerate({ by: 'ann' }),
      async () => {
        await session.recover({ strategy: 'restart_run', by: 'bob' })
        return session.run('go')
      },
    ]) {
      hangs = true
      const run = await session.send('go', { deadline: '3s', messageId: 'go' })
      expect(await run.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE })
      expect(requests.length).toBeGreaterThan(0)
      hangs = false
      const next = await again()
      expect(await until('it is answered', () => next.result({ timeout: 2_000 }))).toMatchObject({ text: 'the second answers' })
      await session.rollback({ message: 'go' })
    }
    const failures = ofType(await eventsOf(session), 'error_entered').map(({ code }) => code)
    expect(failures).toEqual(['deadline_exceeded', 'deadline_exceeded'])
  })

  it('the client and the session refuse a message’s deadline that is not a duration', async () => {
    const { session, id } = player.play(here.pawl, {})
    await expect(session.send('go', { deadline: '5 minutes' as never })).rejects.toMatchObject({
      code: 'invalid_option',
      message: expect.stringContaining("`deadline` must be a number of milliseconds or a string such as '5m'"),
    })
    await (await session.send('hello', { deadline: '10m' })).result(TIMEOUT)
    await here.temporal.workflow.getHandle(`pawl:${id}`).signal('message', { messageId: 'm', content: 'go', deadlineMs: '5m' })
    expect(await session.run('m').settled(TIMEOUT)).toMatchObject({ status: 'rejected', code: 'invalid_deadline' })
  })
})

it('a message’s deadline passes even while no worker runs: the run ends under the next worker, without another model call', async () => {
  const alone = await deploy()
  try {
    const actor = stage({ name: 'actor' })
    const first = await alone.startWorker({ agents: [actor.agent] })
    const { session, id, requests } = actor.play(alone.pawl, { model: never })
    const run = await session.send('go', { deadline: '4s' })
    await until('the model was asked', () => requests.length === 1)
    await first.stop()
    await timerFired(id)
    await alone.startWorker({ agents: [actor.agent] })
    expect(await run.settled(TIMEOUT)).toMatchObject({ ...OF_MESSAGE, run: 1 })
    expect(requests).toHaveLength(1)
  } finally {
    await alone.stop()
  }
})

it('an agent’s deadline passes between attempts of a run’s first call, even if no worker serves the agent', async () => {
  const alone = await deploy()
  try {
    const first = await alone.startWorker({ agents: [hasty.agent] })
    const { session, requests } = hasty.play(alone.pawl, {
      model() {
        throw new ModelError('overloaded_error', 'come back later', { retryable: true, retryAfter: 600_000 })
      },
    })
    const run = await session.send('go')
    await until('an attempt has failed', async () => ofType(await eventsOf(session), 'model_attempt_failed').length === 1)
    await first.stop()
    await alone.startWorker({ agents: [player.agent] })
    const reason = 'The run took longer than its limit of 6,000 ms (limits.deadline).'
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'deadline_exceeded', reason })
    expect(requests).toHaveLength(1)
  } finally {
    await alone.stop()
  }
})

it('a session’s deadline ends the run in progress and every later one, even after a termination', async () => {
  const { session, id, requests } = aging.play(here.pawl, { model: never })
  const reason = 'The session is older than its limit of 3,000 ms (sessionLimits.deadline).'
  expect(await (await session.send('go')).settled(TIMEOUT)).toMatchObject({ run: 1, code: 'deadline_exceeded', reason })
  const asked = requests.length
  expect(await (await session.send('still there?')).settled(TIMEOUT)).toMatchObject({ run: 2, code: 'deadline_exceeded', reason })
  await until('it is stored', async () => (await session.errors()).length === 2)
  await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('a test')
  expect(await (await session.send('and now?')).settled(TIMEOUT)).toMatchObject({ run: 3, code: 'deadline_exceeded', reason })
  expect(requests).toHaveLength(asked)
})
