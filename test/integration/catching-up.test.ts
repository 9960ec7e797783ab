// A session that is being taken over first records what the earlier execution had done in time. Until then, no deadline, expiry, interrupt
// or request of a client ends its run, because the effects of that run have happened.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineHook, defineTool, type Tool } from 'pawl'
import type { RunHandle } from 'pawl/client'
import { calls, scripted } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { type SessionStart, WORKFLOW_TYPE } from '../../src/session/protocol/protocol.ts'
import { approvalStage, digestOf, pendingOf } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, type Played, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { buildsOf } from '../support/other-build.ts'
import { type Gate, gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 60_000 }
const LIMIT = { timeout: 180_000 }
const DEADLINE_MS = 6_000

let here: Deployment
let player: Stage
const builds = buildsOf(() => here)

beforeAll(async () => {
  here = await deploy()
  player = stage()
})
afterAll(() => here?.stop())

const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)
const never = (): Promise<never> => new Promise(() => undefined)
const codeOf = (run: RunHandle): Promise<string> =>
  run.result(TIMEOUT).then(
    () => 'completed',
    (error: { code: string }) => error.code,
  )

async function storedSeq(id: string): Promise<number> {
  const client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
  try {
    const { rows } = await client.query<{ flushed_seq: string }>('select flushed_seq from pawl.sessions where session_id = $1', [id])
    return Number(rows[0]?.flushed_seq ?? 0)
  } finally {
    await client.end()
  }
}

/** Waits until the store has all events of the session. */
const stored = (played: Pick<Played, 'id' | 'session'>): Promise<boolean> =>
  until('it is stored', async () => (await storedSeq(played.id)) === (await eventsOf(played.session)).at(-1)?.seq)

/**
 * Replaces the execution by the request with which a worker does that when no worker can replay it. Postgres is there again. The request
 * itself is tested elsewhere: a build that cannot replay another one's histories takes long to start.
 */
async function takeOver({ id }: Pick<Played, 'id'>, agent: Agent): Promise<void> {
  const workflowId = `pawl:${id}`
  const { runId: executionId } = await workflowOf(id).describe()
  const start: SessionStart = { sessionId: id, unreplayable: { executionId, reason: 'its history differs', times: 1 } }
  const workflowIdConflictPolicy = 'TERMINATE_EXISTING'
  await here.temporal.workflow.start(WORKFLOW_TYPE, { workflowId, taskQueue: here.taskQueue, workflowIdConflictPolicy, args: [start] })
  await builds.start({ agents: [agent] })
}

/** Waits until a deadline has passed that counts from when the session accepted the message. */
async function deadlinePassed({ session }: Pick<Played, 'session'>, messageId: string): Promise<void> {
  const message = ofType(await eventsOf(session), 'message_received').find((one) => one.messageId === messageId)
  const { at, deadlineMs = 0 } = message ?? expect.fail('it is not received')
  await until('the deadline has passed', () => Date.now() > at + deadlineMs)
}

/** The types of the events that end calls and runs, with the ids of the calls. */
const endsIn = async ({ session }: Pick<Played, 'session'>): Promise<string[]> =>
  (await eventsOf(session)).flatMap((event) => {
    if (event.type === 'tool_completed' || event.type === 'tool_failed' || event.type === 'tool_unknown')
      return [`${event.type} ${event.callId}`]
    if (event.type === 'run_interrupted' || event.type === 'error_entered' || event.type === 'run_completed') return [event.type]
    return event.type === 'rolled_back' ? [event.type] : []
  })

/** A run whose effect no event in the store shows, and whose deadline passed after that effect. */
async function overdue(): Promise<{ played: Played; two: RunHandle; scripts: Scene['model'][] }> {
  const postgres = await builds.startOld(player.agent)
  const scripts: Scene['model'][] = [() => 'hello', () => [use('pay', 'rent')]]
  const played: Played = player.play(here.pawl, { model: (request, ctx) => scripts.shift()?.(request, ctx) ?? never() })
  await (await played.session.send('one')).result(TIMEOUT)
  await played.session.pause()
  const two = await played.session.send('two', { deadline: DEADLINE_MS })
  await until('it is received', async () => ofType(await eventsOf(played.session), 'message_received').length === 2)
  await stored(played)
  await postgres.close()
  await played.session.unpause()
  await until('the model has the receipt', () => played.requests.length === 3)
  await deadlinePassed(played, two.messageId)
  await builds.stop()
  return { played, two, scripts }
}

it('a deadline that passes before a session is taken over does not discard effects that happened in time', LIMIT, async () => {
  const { played, two, scripts } = await overdue()
  const three = await played.session.send('three', { deadline: '10m' })
  scripts.push(() => 'three is answered')
  await takeOver(played, player.agent)
  expect(await codeOf(two)).toBe('deadline_exceeded')
  expect((await three.result(TIMEOUT)).text).toBe('three is answered')
  expect(await endsIn(played)).toEqual(['run_completed', 'tool_completed t_2_1_0', 'error_entered', 'run_completed'])
  expect(JSON.stringify(played.requests.at(-1))).toContain('pay done')
  await rowsMatchEvents(here.stack, played.id)
})

/** A run whose first call must be verified again by the next execution, which waits for `verifies`; the second call was made, too. */
async function verifying(options: { deadline?: number } = {}) {
  const postgres = await builds.startOld(player.agent)
  const asked = gate()
  const verifies = gate()
  const scripts: Scene['model'][] = [
    () => 'hello',
    async () => {
      await asked.pass()
      return [use('pay', 'rent'), use('wire', 'power')]
    },
    () => 'paid',
  ]
  const played: Played = player.play(here.pawl, {
    model: (request, ctx) => scripts.shift()?.(request, ctx) ?? never(),
    pay() {
      throw new Error('no answer')
    },
    async verify(_input, { signal }) {
      if (played.count('verify') > 1) await verifies.pass(signal)
      return { happened: true, result: 'paid' }
    },
  })
  await (await played.session.send('one')).result(TIMEOUT)
  const two = await played.session.send('two', options)
  await asked.reached
  await stored(played)
  await postgres.close()
  asked.open()
  await until('the model has answered', async () => (await played.session.state()).status === 'idle')
  await builds.stop()
  await takeOver(played, player.agent)
  await verifies.reached
  return { played, two, scripts, verifies }
}

const BOTH_CALLS = ['run_completed', 'tool_completed t_2_1_0', 'tool_completed t_2_1_1']

it(
  'a deadline that passes while a takeover verifies one effect does not discard the next one, and no restart repeats it',
  LIMIT,
  async () => {
    const { played, two, scripts, verifies } = await verifying({ deadline: DEADLINE_MS })
    await until('the deadline has passed', async () => {
      const { events } = await workflowOf(played.id).fetchHistory()
      return events?.some(({ timerFiredEventAttributes }) => timerFiredEventAttributes)
    })
    verifies.open()
    expect(await codeOf(two)).toBe('deadline_exceeded')
    expect(await endsIn(played)).toEqual([...BOTH_CALLS, 'error_entered'])
    scripts.push(
      () => [use('pay', 'rent'), use('wire', 'power')],
      () => 'paid',
    )
    await played.session.recover({ strategy: 'restart_run', by: 'ann' })
    await until('it is answered', async () => (await played.session.state()).status === 'idle')
    expect([played.count('pay'), played.count('wire')]).toEqual([1, 1])
  },
)

it('a rollback that a client requests while a takeover verifies one effect also reports the next one', LIMIT, async () => {
  const { played, verifies } = await verifying()
  const rolledBack = played.session.rollback({ run: 2 })
  await requested(played, 1)
  verifies.open()
  expect((await rolledBack).effects.map(({ callId, status }) => `${callId} ${status}`)).toEqual(['t_2_1_0 completed', 't_2_1_1 completed'])
  expect(await endsIn(played)).toEqual([...BOTH_CALLS, 'run_interrupted', 'rolled_back'])
  await rowsMatchEvents(here.stack, played.id)
})

/** Waits until the session's newest execution has accepted so many updates. */
const requested = ({ id }: Pick<Played, 'id'>, count: number): Promise<boolean> =>
  until('the request has arrived', async () => {
    const { events } = await workflowOf(id).fetchHistory()
    return (events ?? []).filter((event) => event.workflowExecutionUpdateAcceptedEventAttributes).length >= count
  })

it(
  'a rollback that a client requests before a run has been taken over reports its effects, and the next run is not mistaken for it',
  LIMIT,
  async () => {
    const [firstEnd, secondEnd] = [gate(), gate()]
    let holdsHooks: Gate | undefined = firstEnd
    const end = defineHook({ on: 'turnEnd', name: 'end', timeout: '10m', run: (_input, { signal }) => holdsHooks?.pass(signal) })
    const hooked = stage({ name: 'hooked', hooks: [end] })
    const looks = gate()
    const postgres = await builds.startOld(hooked.agent)
    const played: Played = hooked.play(here.pawl, {
      look: (_input, { signal }) => looks.pass(signal),
      model: (request) => {
        const said = saidIn(request).at(-1)
        if (said === 'one') return [use('look', 'closely')]
        if (said === 'two' && played.count('pay') === 0) return [use('pay', 'rent')]
        if (said === 'two') return played.requests.length === 3 ? 'paid' : never()
        return 'three is answered'
      },
    })
    await played.session.send('one')
    await looks.reached
    await played.session.interrupt()
    await firstEnd.reached
    holdsHooks = undefined
    await stored(played)
    await postgres.close()
    await played.session.send('two')
    firstEnd.open()
    await until('the model has answered', async () => (await played.session.state()).status === 'idle' && played.requests.length === 3)
    await builds.stop()

    holdsHooks = secondEnd
    await takeOver(played, hooked.agent)
    await secondEnd.reached
    holdsHooks = undefined
    const rolledBack = played.session.rollback({ run: 1 })
    await requested(played, 1)
    secondEnd.open()
    expect((await rolledBack).effects.map(({ callId, status }) => `${callId} ${status}`)).toEqual(['t_2_1_0 completed'])
    expect((await (await played.session.send('three')).result(TIMEOUT)).text).toBe('three is answered')
    expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['three'])
    expect(played.count('pay')).toBe(1)
  },
)

it.each(['interrupt', 'cancel'] as const)(
  'an effect that a client had approved stays recorded if no worker could replay a later request to %s the session',
  LIMIT,
  async (how) => {
    const asking = approvalStage()
    const postgres = await builds.startOld(asking.agent)
    const played = asking.play(here.pawl, { model: (request) => (answersIn(request) === 0 ? [use('pay', 'rent')] : never()) })
    const sent = await played.session.send('one')
    const decision = { digest: await digestOf(sent, 't_1_1_0'), by: 'anna' }
    await stored(played)
    await postgres.close()
    await played.session.approve('t_1_1_0', decision)
    await until('the model has the receipt', () => played.requests.length === 2)
    if (how === 'interrupt') await played.session.interrupt({ reason: 'enough' })
    else await workflowOf(played.id).cancel()
    await until('its model call is stopped', async () => {
      const { events } = await workflowOf(played.id).fetchHistory()
      return events?.some((event) => event.activityTaskCancelRequestedEventAttributes)
    })
    await builds.stop()

    await takeOver(played, asking.agent)
    expect(await codeOf(sent)).toBe('run_interrupted')
    expect(await endsIn(played)).toEqual(['tool_completed t_1_1_0', 'run_interrupted'])
    const decided = ofType(await eventsOf(played.session), 'approval_decided').map(({ approved, by }) => ({ approved, by }))
    expect(decided).toEqual([{ approved: true, by: 'anna' }])
    expect(played.entered()).toEqual(['pay rent'])
  },
)

it('a message that waited in an execution that was lost keeps its deadline, which counts from when it was received', LIMIT, async () => {
  await builds.startOld(player.agent)
  const played: Played = player.play(here.pawl, { model: () => 'hello' })
  await (await played.session.send('one')).result(TIMEOUT)
  await stored(played)
  await builds.stop()
  const two = await played.session.send('two', { deadline: DEADLINE_MS })
  const received = Date.now()
  await until('the deadline has passed', () => Date.now() > received + DEADLINE_MS)
  await takeOver(played, player.agent)
  expect(await codeOf(two)).toBe('deadline_exceeded')
  expect(played.requests).toHaveLength(1)
  await rowsMatchEvents(here.stack, played.id)
})

it('a client’s answer that came in time still counts if its time has expired when the session is taken over', LIMIT, async () => {
  const asking = approvalStage()
  const postgres = await builds.startOld(asking.agent)
  const played = asking.play(here.pawl, { model: (request) => (answersIn(request) === 0 ? [use('soon', 'the colour')] : 'blue it is') })
  const sent = await played.session.send('one')
  const [pending] = await pendingOf(sent)
  const { callId, expiresAt } = pending ?? expect.fail('nothing is pending')
  await stored(played)
  await postgres.close()
  await played.session.answer(callId, 'blue')
  await until('the model has the answer', () => played.requests.length === 2)
  await builds.stop()
  await until('the time has expired', () => Date.now() > Number(expiresAt ?? 0))

  await played.session.send('two')
  await takeOver(played, asking.agent)
  await until('the model has the answer again', () => played.requests.length === 3, 60_000)
  expect(JSON.stringify(played.requests.at(-1))).toContain('blue')
  expect((await endsIn(played))[0]).toBe(`tool_completed ${callId}`)
})

/** A session whose second run makes one call. `afterwards`: what its model answers then. */
function wiring(wire: NonNullable<Scene['wire']>, afterwards: NonNullable<Scene['model']>): Played {
  const scripts: Scene['model'][] = [() => 'hello', () => [use('wire', 'money')]]
  return player.play(here.pawl, { model: (request, ctx) => scripts.shift()?.(request, ctx) ?? afterwards(request, ctx), wire })
}

it('the late result of an effect counts in the execution that takes over, although it does not know the call yet', LIMIT, async () => {
  const postgres = await builds.startOld(player.agent)
  const body = gate()
  const wire = async (): Promise<never> => {
    await body.pass()
    throw new Error('no answer')
  }
  const played = wiring(wire, () => 'done')
  await (await played.session.send('one')).result(TIMEOUT)
  await stored(played)
  await postgres.close()
  await played.session.send('two')
  await body.reached
  // As a worker does whose answer no activity waits for any more.
  const late = { callId: 't_2_1_0', attempt: 1, startedAt: Date.now(), worker: 'w', value: 'reference 7' }
  await workflowOf(played.id).signal('late_result', late)
  body.open()
  await until('the model has the result', () => played.requests.length === 3)
  expect(JSON.stringify(played.requests.at(-1))).toContain('reference 7')
  await builds.stop()

  await played.session.send('three')
  await takeOver(played, player.agent)
  await until('the model has the result again', () => played.requests.length === 4, 60_000)
  expect(JSON.stringify(played.requests.at(-1))).toContain('reference 7')
  expect((await endsIn(played))[1]).toBe('tool_completed t_2_1_0')
})

/** Waits until the session has been taken over and is paused. */
const pausedAgain = ({ session }: Played): Promise<boolean> =>
  until(
    'the next execution is paused',
    async () => {
      const { paused, seq } = await session.state()
      return paused !== undefined && (seq ?? 0) > 0 && ofType(await eventsOf(session), 'session_resumed').length > 0
    },
    60_000,
  )

/** A session that was paused during a payment, of which nothing is stored. Its model is asked next for `afterwards`. */
async function pausedInPayment(...afterwards: Scene['model'][]): Promise<{ played: Played; two: RunHandle }> {
  const postgres = await builds.startOld(player.agent)
  const payment = gate()
  const scripts: Scene['model'][] = [() => 'hello', () => [use('pay', 'rent')], ...afterwards]
  const played: Played = player.play(here.pawl, {
    model: (request, ctx) => scripts.shift()?.(request, ctx) ?? 'done',
    pay: async () => {
      await payment.pass()
      return 'receipt 9'
    },
  })
  await (await played.session.send('one')).result(TIMEOUT)
  await stored(played)
  await postgres.close()
  const two = await played.session.send('two')
  await payment.reached
  await played.session.pause({ by: 'anna' })
  payment.open()
  await until('the payment has its result', async () => ofType(await eventsOf(played.session), 'tool_completed').length === 1)
  return { played, two }
}

it('a pause and a call that are not stored survive a takeover: the call is not made again, and the model is not asked', LIMIT, async () => {
  const { played, two } = await pausedInPayment()
  await builds.stop()
  await takeOver(played, player.agent)
  await pausedAgain(played)
  const { events } = await workflowOf(played.id).fetchHistory()
  const scheduled = events?.flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [])
  expect(scheduled).not.toContain('callModel')
  expect(await endsIn(played)).toEqual(['run_completed', 'tool_completed t_2_1_0'])
  await played.session.unpause()
  expect((await two.result(TIMEOUT)).text).toBe('done')
  expect(played.count('pay')).toBe(1)
  expect(JSON.stringify(played.requests.at(-1))).toContain('receipt 9')
  await rowsMatchEvents(here.stack, played.id)
})

it('a run that was paused and continued is taken over with its unstored calls and the messages of the pause', LIMIT, async () => {
  const { played, two } = await pausedInPayment(() => [use('put', 'note')])
  const three = await played.session.send('three')
  await played.session.unpause()
  await until('the model has answered', async () => (await played.session.state()).status === 'idle')
  await builds.stop()
  await takeOver(played, player.agent)
  expect((await two.result(TIMEOUT)).run).toBe(2)
  expect((await three.result(TIMEOUT)).run).toBe(2)
  expect(played.entries.map(({ tool }) => tool)).toEqual(['pay', 'put'])
  expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['one', 'two', 'three'])
  expect((await played.session.state()).paused).toBeUndefined()
  await rowsMatchEvents(here.stack, played.id)
})

it(
  'a checkpoint, a raise and a fork that arrived with unstored calls are carried out in the execution that takes over',
  LIMIT,
  async () => {
    const rich = stage({ name: 'rich', limits: { maxTotalTokens: 1_000_000 }, checkpoint: { everyTurns: 100 } })
    const postgres = await builds.startOld(rich.agent)
    const payment = gate()
    const scripts: Scene['model'][] = [() => 'hello', () => [use('pay', 'rent')], () => [use('put', 'note')]]
    const played: Played = rich.play(here.pawl, {
      model: (request, ctx) => scripts.shift()?.(request, ctx) ?? 'done',
      pay: async () => {
        await payment.pass()
        return 'receipt 9'
      },
    })
    const { session } = played
    await (await session.send('one')).result(TIMEOUT)
    await stored(played)
    await postgres.close()
    const two = await session.send('two')
    await payment.reached
    expect(await session.checkpoint('before the audit', { by: 'anna' })).toEqual({ version: 1, made: false })
    await session.raise({ maxTotalTokens: 2_000_000, by: 'anna' })
    await workflowOf(played.id).executeUpdate('fork', { args: [{ interrupt: false }] })
    const three = await session.send('three')
    payment.open()
    await until('the model has answered', async () => (await session.state()).status === 'idle')
    await builds.stop()
    await takeOver(played, rich.agent)
    expect((await two.result(TIMEOUT)).run).toBe(2)
    expect((await three.result(TIMEOUT)).run).toBe(2)
    expect(played.entries.map(({ tool }) => tool)).toEqual(['pay', 'put'])
    expect(saidIn(played.requests.at(-1) ?? expect.fail('no model was asked'))).toEqual(['one', 'two', 'three'])
    await until('all are carried out', async () => ofType(await eventsOf(session), 'request_passed_on').length === 3)
    const events = await eventsOf(session)
    expect(ofType(events, 'checkpoint_made')).toMatchObject([{ version: 1, run: 2, reasons: ['before the audit'], by: 'anna' }])
    expect(ofType(events, 'budget_raised')).toMatchObject([{ scope: 'run', run: 2, maxTotalTokens: 2_000_000 }])
    expect(ofType(events, 'request_passed_on').map(({ name, code }) => [name, code])).toEqual([
      ['checkpoint', undefined],
      ['raise', undefined],
      ['fork', undefined],
    ])
    await rowsMatchEvents(here.stack, played.id)
  },
)

it('a raise that is passed on does not raise the budget of the run after the one that it was meant for', LIMIT, async () => {
  const rich = stage({ name: 'rich', limits: { maxTotalTokens: 1_000_000 } })
  const postgres = await builds.startOld(rich.agent)
  const [payment, held] = [gate(), gate()]
  const scripts: Scene['model'][] = [() => 'hello', () => [use('pay', 'rent')]]
  const played: Played = rich.play(here.pawl, {
    model: (request, ctx) => scripts.shift()?.(request, ctx) ?? 'done',
    pay: async () => {
      await payment.pass()
      return 'receipt 9'
    },
    look: () => held.pass(),
  })
  const { session } = played
  await (await session.send('one')).result(TIMEOUT)
  await stored(played)
  await postgres.close()
  const two = await session.send('two')
  await payment.reached
  await session.raise({ maxTotalTokens: 2_000_000 })
  payment.open()
  await until('the run has ended', async () => (await session.state()).status === 'idle')
  const three = await session.send('three')
  await until('the next run has ended', async () => (await endsIn(played)).filter((one) => one === 'run_completed').length === 3)
  await builds.stop()
  await takeOver(played, rich.agent)
  expect((await two.result(TIMEOUT)).run).toBe(2)
  await three.result(TIMEOUT)
  expect(played.count('pay')).toBe(1)
  expect(ofType(await eventsOf(session), 'budget_raised').map(({ run }) => run)).toEqual([2])
  await rowsMatchEvents(here.stack, played.id)
})

it('an interrupt during a pause with an unstored call ends the run that is taken over, and its effect stays', LIMIT, async () => {
  const { played, two } = await pausedInPayment()
  await played.session.interrupt({ reason: 'enough' })
  await until('its run has ended', async () => (await played.session.state()).status === 'idle')
  await builds.stop()
  await takeOver(played, player.agent)
  expect(await codeOf(two)).toBe('run_interrupted')
  expect(await endsIn(played)).toEqual(['run_completed', 'tool_completed t_2_1_0', 'run_interrupted'])
  expect(await played.session.state()).toMatchObject({ paused: { by: 'anna' } })
  await rowsMatchEvents(here.stack, played.id)
})

it('the late result of an effect counts although its session is paused, has been taken over and is then interrupted', LIMIT, async () => {
  const old = await here.startWorker({ agents: [player.agent] })
  const body = gate()
  const wire = async (): Promise<string> => {
    await body.pass()
    return 'reference 8'
  }
  const played = wiring(wire, () => never())
  await (await played.session.send('one')).result(TIMEOUT)
  const two = await played.session.send('two')
  await body.reached
  await played.session.pause()
  await stored(played)
  await takeOver(played, player.agent)
  await pausedAgain(played)
  // The server refuses the result of the execution that has ended, so its worker signals it to the next one.
  body.open()
  await until('the result has arrived', async () => {
    const { events } = await workflowOf(played.id).fetchHistory()
    return events?.some(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName === 'late_result')
  })
  await played.session.interrupt({ reason: 'enough' })
  expect(await codeOf(two)).toBe('run_interrupted')
  expect(await endsIn(played)).toEqual(['run_completed', 'tool_completed t_2_1_0', 'run_interrupted'])
  expect(ofType(await eventsOf(played.session), 'tool_completed').map(({ value }) => value)).toEqual(['reference 8'])
  await old.stop()
  await rowsMatchEvents(here.stack, played.id)
})

it.each([
  { how: 'taken over', end: (played: Played) => takeOver(played, player.agent) },
  {
    how: 'terminated',
    async end({ id, session }: Played) {
      await workflowOf(id).terminate('a test')
      await builds.start({ agents: [player.agent] })
      await session.resume()
    },
  },
])('the late result of an effect counts although its session is paused, taken over, and then $how', LIMIT, async ({ end }) => {
  const old = await here.startWorker({ agents: [player.agent] })
  const body = gate()
  const scripts: Scene['model'][] = [() => 'hello', () => [use('wire', 'money')]]
  const played: Played = player.play(here.pawl, {
    model: (request, ctx) => scripts.shift()?.(request, ctx) ?? 'done',
    wire: async () => {
      await body.pass()
      return 'reference 8'
    },
  })
  const { session } = played
  await (await session.send('one')).result(TIMEOUT)
  const two = await session.send('two')
  await body.reached
  await session.pause()
  await stored(played)
  await takeOver(played, player.agent)
  await pausedAgain(played)
  body.open()
  await until('the result has arrived', async () => {
    const { events } = await workflowOf(played.id).fetchHistory()
    return events?.some(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName === 'late_result')
  })
  // What is stored after the result does not say that it has arrived.
  await session.send('three')
  await stored(played)
  await builds.stop()
  await end(played)
  await until('it is resumed again', async () => ofType(await eventsOf(session), 'session_resumed').length === 2, 60_000)
  await session.unpause()
  await two.result(TIMEOUT)
  const events = await eventsOf(session)
  expect(ofType(events, 'tool_completed').map(({ value }) => value)).toEqual(['reference 8'])
  expect(ofType(events, 'tool_unknown')).toEqual([])
  expect(played.count('wire')).toBe(1)
  await old.stop()
  await rowsMatchEvents(here.stack, played.id)
})

it.each([
  { by: 'a person', how: 'taken over', reason: 'enough' },
  { by: 'a message', how: 'taken over', reason: 'replaced by a later message' },
  { by: 'a scheduled message', how: 'taken over', reason: 'replaced by a later message' },
  { by: 'a person', how: 'terminated', reason: 'enough' },
  { by: 'a message', how: 'terminated', reason: 'replaced by a later message' },
  { by: 'a scheduled message', how: 'terminated', reason: 'replaced by a later message' },
])('an interrupt by $by that waits for a call ends its run although the session is $how meanwhile', LIMIT, async ({ by, how, reason }) => {
  const deaf = gate()
  const old = await here.startWorker({ agents: [player.agent] })
  const played: Played = player.play(here.pawl, {
    model: (request) => (saidIn(request).includes('two') && answersIn(request) < 2 ? [use('put', 'note')] : 'hello'),
    // It does not react to its abort signal.
    put: () => (played.count('put') > 1 ? 'put again' : deaf.pass()),
  })
  const { session } = played
  await (await session.send('one')).result(TIMEOUT)
  const two = await session.send('two')
  await deaf.reached
  if (by === 'a person') await session.interrupt({ reason })
  const three = await session.send('three', {
    interrupt: by !== 'a person',
    ...(by === 'a scheduled message' && { delay: 300, by: 'ann' }),
  })
  await until('it has been received', async () => {
    const received = ofType(await eventsOf(session), 'message_received')
    return received.some(({ messageId }) => messageId === three.messageId)
  })
  await stored(played)
  expect((await session.state()).current).toMatchObject({ run: 2, stopping: true })
  if (how === 'taken over') await takeOver(played, player.agent)
  else {
    await workflowOf(played.id).terminate('a test')
    await builds.start({ agents: [player.agent] })
    await session.resume()
  }
  expect(await two.settled(TIMEOUT)).toMatchObject({ status: 'interrupted', run: 2, reason })
  const [interrupted] = ofType(await eventsOf(session), 'run_interrupted')
  expect(interrupted?.by).toBe(by === 'a scheduled message' ? 'ann' : undefined)
  expect(await three.settled(TIMEOUT)).toMatchObject({ status: 'completed', run: 3 })
  deaf.open()
  await old.stop()
})

it('a call that waits for a limit of its tool has not begun in the execution that takes over', LIMIT, async () => {
  const body = gate()
  const entered: string[] = []
  const wire: Tool = {
    ...defineTool({
      name: 'wire',
      description: 'Wire.',
      input: z.object({ what: z.string() }),
      effect: 'external',
      async execute({ what }) {
        entered.push(what)
        if (what === 'first') await body.pass()
        return 'done'
      },
    }),
    limits: [{ of: 'concurrency', max: 1 }],
  }
  const model = scripted(({ messages }) => (messages.length > 1 ? 'done' : calls('wire', { what: String(messages[0]?.content) })))
  const agent = defineAgent({ name: 'limited', instructions: '', model, tools: [wire] }) as Agent
  const old = await here.startWorker({ agents: [agent] })
  const first = await here.pawl.session(undefined, { agent: 'limited' }).send('first')
  await body.reached
  const session = here.pawl.session(`s-${randomUUID()}`, { agent: 'limited' })
  const second = await session.send('second')
  await until('it waits', async () => (await session.status()).waitsFor.some((wait) => wait.for === 'limit'))
  await takeOver(session, agent)
  await until('it is taken over', async () => ofType(await eventsOf(session), 'session_resumed').length > 0)
  body.open()
  expect((await second.result(TIMEOUT)).text).toBe('done')
  expect(entered).toEqual(['first', 'second'])
  expect(ofType(await eventsOf(session), 'tool_attempt_failed')).toEqual([])
  await first.result(TIMEOUT)
  await old.stop()
})
